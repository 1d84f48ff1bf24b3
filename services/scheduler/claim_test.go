package scheduler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// race runs claimers at once, each claiming until nothing is left for it, and returns how often each connector was
// claimed.
func (s *stage) race(claimers, limit, batch int) map[int32]int {
	s.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	claimed := map[int32]int{}
	for range claimers {
		scheduler := s.scheduler()
		group.Go(func() {
			for {
				got, err := scheduler.Claim(s.Context(), "web", limit, batch)
				if err != nil {
					s.Error(err)
				}
				if len(got) == 0 {
					return
				}
				mu.Lock()
				for _, t := range got {
					claimed[t.ID]++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return claimed
}

func TestSeveralSchedulersClaimEachConnectorOnce(t *testing.T) {
	for name, claimers := range map[string]int{"two": 2, "four": 4} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.connectors(300)
			claimed := s.race(claimers, 0, 7)
			if len(claimed) != 300 {
				t.Errorf("%d connectors were claimed, want 300", len(claimed))
			}
			for id, n := range claimed {
				if n != 1 {
					t.Errorf("connector %d was claimed %d times", id, n)
				}
			}
			want(s, 300, `SELECT count(*) FROM connectors c JOIN scheduler_runs r ON r.id = c.chunking_session
				WHERE c.status = 'PENDING' AND r.status = 'running' AND r.connector_id = c.id`)
			want(s, 300, `SELECT count(*) FROM scheduler_runs`)
		})
	}
}

func TestConcurrentClaimersNeverExceedTheCap(t *testing.T) {
	s := setStage(t)
	s.connectors(100)
	if claimed := s.race(6, 5, 3); len(claimed) != 5 {
		t.Errorf("%d connectors are in flight, want 5", len(claimed))
	}
	want(s, 5, `SELECT count(*) FROM connectors WHERE chunking_session IS NOT NULL`)
}

func TestATickFillsTheCapOfTheType(t *testing.T) {
	for name, c := range map[string]struct {
		ofType any
		want   int
	}{"of the service": {nil, 5}, "of its own": {2, 2}, "none": {0, 12}} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			s.exec(`UPDATE connector_types SET max_concurrent_syncs = $1 WHERE name = 'web'`, c.ofType)
			s.connectors(12)
			scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 })
			s.do(scheduler.Tick(t.Context()))
			s.do(scheduler.Tick(t.Context()))
			want(s, c.want, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
			if n := len(s.messages("web")); n != c.want {
				t.Errorf("%d messages, want %d", n, c.want)
			}
		})
	}
}

func TestACapOfOneTypeDoesNotHoldAnother(t *testing.T) {
	s := setStage(t)
	s.connectors(3)
	s.connector(row{"type": "file"})
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 1 WHERE name = 'web'`)
	s.do(s.scheduler().Tick(t.Context()))
	want(s, 1, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND type = 'file'`)
	want(s, 1, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND type = 'web'`)
}

func TestALateVerdictGivesItsPlaceToTheNext(t *testing.T) {
	s := setStage(t)
	first := s.connector(nil)
	second := s.connector(nil)
	scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 1 })
	s.do(scheduler.Tick(t.Context()))
	want(s, "ACTIVE", `SELECT status FROM connectors WHERE id = $1`, second)
	s.do(s.moves.Release(t.Context(), s.session(first)))
	s.exec(`UPDATE connectors SET status = 'DISABLED' WHERE id = $1`, first)
	s.do(scheduler.Tick(t.Context()))
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, second)
}

func TestTheLongestDueIsClaimedFirst(t *testing.T) {
	s := setStage(t)
	var ids []int32
	for _, minutes := range []int{10, 30, 20} {
		id := s.connector(nil)
		s.exec(`UPDATE connectors SET next_sync_at = now() - make_interval(mins => $2::int) WHERE id = $1`, id, minutes)
		ids = append(ids, id)
	}
	var order []int32
	for range ids {
		claimed, err := s.scheduler().Claim(t.Context(), "web", 0, 1)
		s.do(err)
		order = append(order, claimed[0].ID)
	}
	if expected := []int32{ids[1], ids[2], ids[0]}; !slices.Equal(order, expected) {
		t.Errorf("claimed in the order %v, want %v", order, expected)
	}
}

func TestAClaimOpensTheRunThatSaysWhy(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	slot := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	s.exec(`UPDATE connectors SET next_sync_at = $2, slot_at = $2, due_reason = 'schedule' WHERE id = $1`, id, slot)
	claimed := s.claim(s.scheduler())
	if len(claimed) != 1 || claimed[0].Session == uuid.Nil {
		t.Fatalf("claimed %+v", claimed)
	}
	want(s, true, `SELECT trigger = 'schedule' AND slot = $2 AND due_at = $2 AND job_name = 'connector.sync.web'
		AND status = 'running' AND config_version = (SELECT config_version FROM connectors WHERE id = $3)
		FROM scheduler_runs WHERE id = $1`, claimed[0].Session, slot, id)
	want(s, true, `SELECT status = 'PENDING' AND chunking_session = $2 AND next_sync_at IS NULL AND due_reason IS NULL
		AND slot_at IS NULL AND dispatches = 1 AND dispatched_at BETWEEN now() - interval '1 minute' AND now()
		FROM connectors WHERE id = $1`, id, claimed[0].Session)
}

func TestARunWithoutASlotKeepsItNull(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.exec(`UPDATE connectors SET due_reason = 'schedule', slot_at = NULL WHERE id = $1`, id)
	s.claim(s.scheduler())
	want(s, true, `SELECT slot IS NULL AND trigger = 'schedule' FROM scheduler_runs WHERE connector_id = $1`, id)
}

func TestASlotThatHasItsVerdictIsClaimedWithoutIt(t *testing.T) {
	s := setStage(t)
	taken, free := s.connector(nil), s.connector(nil)
	slot := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	s.exec(`UPDATE connectors SET next_sync_at = $1, slot_at = $1, due_reason = 'schedule'`, slot)
	s.exec(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, slot, due_at, started_at, completed_at,
		status, config_version) VALUES (gen_random_uuid(), $1, 'j', 'schedule', $2, $2, $2, $2, 'completed', 1)`, taken, slot)
	if claimed := s.claim(s.scheduler()); len(claimed) != 2 {
		t.Fatalf("%d connectors were claimed, want both", len(claimed))
	}
	want(s, true, `SELECT slot IS NULL FROM scheduler_runs WHERE connector_id = $1 AND status = 'running'`, taken)
	want(s, true, `SELECT slot = $2 FROM scheduler_runs WHERE connector_id = $1 AND status = 'running'`, free, slot)
}

func TestAStrayOpenRunDoesNotStopTheBatch(t *testing.T) {
	s := setStage(t)
	id, other := s.connector(nil), s.connector(nil)
	stray := uuid.New()
	s.exec(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, config_version)
		VALUES ($1, $2, 'j', 'new', now(), now(), 1)`, stray, id)
	if claimed := s.claim(s.scheduler()); len(claimed) != 2 {
		t.Fatalf("%d connectors were claimed, want both", len(claimed))
	}
	want(s, "superseded: claimed again", `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, stray)
	want(s, 2, `SELECT count(*) FROM scheduler_runs WHERE status = 'running' AND connector_id IN ($1, $2)`, id, other)
}

func TestOneTickClaimsManyBatches(t *testing.T) {
	s := setStage(t)
	s.connectors(25)
	s.do(s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 10 }).Tick(t.Context()))
	want(s, 25, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	if n := len(s.messages("web")); n != 25 {
		t.Errorf("%d messages, want 25", n)
	}
}

func TestARowThatSomebodyHoldsIsSkipped(t *testing.T) {
	s := setStage(t)
	held, free := s.connector(nil), s.connector(nil)
	tx, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM connectors WHERE id = $1 FOR UPDATE`, held)
	s.do(err)
	if claimed := s.claim(s.scheduler()); len(claimed) != 1 || claimed[0].ID != free {
		t.Errorf("claimed %+v, want only connector %d", claimed, free)
	}
}

func TestATypeThatCannotBeClaimedDoesNotHoldTheOthers(t *testing.T) {
	s := setStage(t)
	broken, fine := s.connector(row{"type": "file"}), s.connector(nil)
	s.exec(`ALTER TABLE connectors ADD CONSTRAINT broken CHECK (type <> 'file' OR status <> 'PENDING')`)
	if err := s.scheduler().Tick(t.Context()); err == nil {
		t.Error("the tick said nothing about the type that could not be claimed")
	}
	want(s, "ACTIVE", `SELECT status FROM connectors WHERE id = $1`, broken)
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, fine)
}
