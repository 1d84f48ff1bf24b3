package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
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
			want(s, 300, `SELECT count(*) FROM connectors c JOIN scheduler_runs r ON r.id = c.run_id
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
	want(s, 5, `SELECT count(*) FROM connectors WHERE run_id IS NOT NULL`)
	want(s, true, `SELECT waits FROM waiting_types WHERE name = 'web'`)
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
	s.do(s.moves.Release(t.Context(), lifecycle.Try{Run: s.session(first), ID: uuid.New()}))
	s.do(s.moves.Disable(t.Context(), first))
	s.do(scheduler.Tick(t.Context()))
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, second)
}

func TestTheLongestDueIsClaimedFirst(t *testing.T) {
	s := setStage(t)
	var ids []int32
	for _, minutes := range []int{10, 30, 20} {
		id := s.connector(nil)
		s.force(`UPDATE connectors SET next_sync_at = now() - make_interval(mins => $2::int) WHERE id = $1`, id, minutes)
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
	s.force(`UPDATE connectors SET next_sync_at = $2, slot_at = $2, due_reason = 'schedule' WHERE id = $1`, id, slot)
	claimed := s.claim(s.scheduler())
	if len(claimed) != 1 || claimed[0].Session == uuid.Nil {
		t.Fatalf("claimed %+v", claimed)
	}
	want(s, true, `SELECT trigger = 'schedule' AND slot = $2 AND due_at = $2 AND job_name = 'connector.sync.web'
		AND status = 'running' AND config_version = (SELECT config_version FROM connectors WHERE id = $3)
		FROM scheduler_runs WHERE id = $1`, claimed[0].Session, slot, id)
	want(s, true, `SELECT status = 'PENDING' AND run_id = $2 AND next_sync_at IS NULL AND due_reason IS NULL
		AND slot_at IS NULL AND slots_through = $3 FROM connectors WHERE id = $1`, id, claimed[0].Session, slot)
	want(s, true, `SELECT dispatches = 1 AND dispatched_at BETWEEN now() - interval '1 minute' AND now() AND picked_up_at IS NULL
		FROM open_runs WHERE id = $1 AND connector_id = $2`, claimed[0].Session, id)
}

func TestARunWithoutASlotKeepsItNull(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.force(`UPDATE connectors SET due_reason = 'schedule', slot_at = NULL WHERE id = $1`, id)
	s.claim(s.scheduler())
	want(s, true, `SELECT slot IS NULL AND trigger = 'schedule' FROM scheduler_runs WHERE connector_id = $1`, id)
}

func TestASlotThatHasItsVerdictIsClaimedWithoutIt(t *testing.T) {
	s := setStage(t)
	taken, free := s.connector(nil), s.connector(nil)
	slot := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	s.force(`UPDATE connectors SET next_sync_at = $1, slot_at = $1, due_reason = 'schedule'`, slot)
	s.force(`UPDATE connectors SET slots_through = $1`, slot.Add(time.Hour)) // the clock has stepped back
	s.force(`INSERT INTO runs (id, connector_id, type, trigger, slot, due_at, started_at, completed_at, status, config_version)
		VALUES (gen_random_uuid(), $1, 'web', 'schedule', $2, $2, $2, $2, 'failed', 1)`, taken, slot)
	if claimed := s.claim(s.scheduler()); len(claimed) != 2 {
		t.Fatalf("%d connectors were claimed, want both", len(claimed))
	}
	want(s, true, `SELECT slot IS NULL FROM scheduler_runs WHERE connector_id = $1 AND status = 'running'`, taken)
	want(s, true, `SELECT slot = $2 FROM scheduler_runs WHERE connector_id = $1 AND status = 'running'`, free, slot)
	want(s, true, `SELECT bool_and(slots_through = $1) FROM connectors`, slot.Add(time.Hour))
}

func TestAStrayOpenRunDoesNotStopTheBatch(t *testing.T) {
	s := setStage(t)
	id, other := s.connector(nil), s.connector(nil)
	stray := uuid.New()
	s.exec(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		VALUES ($1, $2, 1, 'web', 'new', now(), now(), now(), 1)`, stray, id)
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

func TestARowThatCannotBeClaimedDoesNotStopItsBatchNorAnotherType(t *testing.T) {
	s := setStage(t)
	s.connectors(20)
	broken, another, file := s.connector(nil), s.connector(nil), s.connector(row{"type": "file"})
	s.exec(fmt.Sprintf(`ALTER TABLE connectors ADD CONSTRAINT broken CHECK (id NOT IN (%d, %d) OR status <> 'PENDING')`, broken, another))
	b := s.behind(func(cfg *Config) { cfg.ClaimBatch = 7 })
	s.do(b.Tick(t.Context()))
	want(s, 20, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND type = 'web'`)
	want(s, 2, `SELECT count(*) FROM connectors WHERE status = 'ACTIVE' AND next_sync_at IS NOT NULL AND run_id IS NULL
		AND id IN ($1, $2)`, broken, another)
	want(s, 21, `SELECT count(*) FROM open_runs`)
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, file)
	for _, id := range []int32{broken, another} {
		s.logs(b, fmt.Sprintf("cannot be claimed and stays due; the others go on\" service=scheduler connector=%d", id))
	}
	if n := len(s.messages("web")); n != 20 {
		t.Errorf("%d messages, want 20", n)
	}
}

func TestATypeWhoseTurnSomebodyHoldsDoesNotHoldTheOthers(t *testing.T) {
	s := setStage(t)
	s.connectors(3)
	s.force(`UPDATE connectors SET next_sync_at = next_sync_at - interval '1 hour'`) // so that its turn is the first
	s.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'f', 'file', 1, 60 FROM generate_series(1, 9)`)
	turn, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { s.do(turn.Rollback(context.WithoutCancel(t.Context()))) }()
	s.takeTurn(turn)
	scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs, cfg.ClaimBatch = 100, 2 })
	if err := scheduler.Tick(t.Context()); !postgres.Locked(err) || postgres.Unavailable(err) {
		t.Errorf("the tick said %v of the type whose turn is held", err)
	}
	want(s, 9, `SELECT count(*) FROM connectors WHERE type = 'file' AND status = 'PENDING'`)
	want(s, 3, `SELECT count(*) FROM connectors WHERE type = 'web' AND status = 'ACTIVE' AND next_sync_at IS NOT NULL`)
}

// takeTurn takes the turn of those who claim web connectors under a cap.
func (s *stage) takeTurn(tx pgx.Tx) {
	s.Helper()
	_, err := tx.Exec(s.Context(), `SELECT pg_advisory_xact_lock(hashtext('echomind.claim'), hashtext('web'))`)
	s.do(err)
}

func TestADueTimeWithoutAnEndIsRefused(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	for _, at := range []string{"-infinity", "infinity", "1999-12-31", "9999-12-31"} {
		_, err := movestest.TryForce(t.Context(), s.servers.Pool, `UPDATE connectors SET next_sync_at = $2::text::timestamptz WHERE id = $1`, id, at)
		if postgres.Constraint(err) != "connectors_next_sync_range" {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestATickThatFindsACapFullLooksAgain(t *testing.T) {
	s := setStage(t)
	s.exec(`UPDATE connector_types SET max_concurrent_syncs = 1 WHERE name = 'web'`)
	s.connectors(2)
	scheduler := s.scheduler(rarely)
	scheduler.listening.Store(true) // nobody tells it of the verdict
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- scheduler.ticks(ctx) }()
	defer func() { cancel(); s.do(<-ended) }()
	s.eventually(wakes, s.messagesAre(1))
	first := one[int32](s, `SELECT connector_id FROM open_runs`)
	s.do(s.moves.Disable(t.Context(), first))
	s.eventually(pollEvery+5*time.Second, s.messagesAre(2))
}

func TestATypeWhoseTurnSomebodyHoldsDelaysNoOther(t *testing.T) {
	s := setStage(t)
	s.connectors(1) // web
	turn, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	defer func() { s.do(turn.Rollback(context.WithoutCancel(t.Context()))) }()
	s.takeTurn(turn)
	scheduler := s.scheduler(rarely, func(cfg *Config) { cfg.MaxConcurrentSyncs = 5 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- scheduler.ticks(ctx) }()
	defer func() { cancel(); s.do(<-ended) }()
	waits := s.countIs(1, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	s.eventually(wakes, waits)
	s.connector(row{"type": "file"})
	scheduler.Wake()
	s.eventually(wakes, func() error {
		if n := len(s.messages("file")); n != 1 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	s.do(waits()) // it still does
}
