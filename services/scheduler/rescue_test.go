package scheduler

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/sdk/lifecycle"
)

const gone = -time.Second // a lease that has run out

func (s *stage) rescue() {
	s.Helper()
	s.do(s.scheduler().Rescue(s.Context()))
}

func TestALostWorkersConnectorIsClaimedAgainAtOnce(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	old, owner := s.syncing(id, gone)
	s.rescue()
	session := s.session(id)
	if session == old {
		t.Fatal("the session is the lost worker's")
	}
	want(s, true, `SELECT status = 'PENDING' AND failure_count = 1 AND lease_owner IS NULL AND dispatches = 1
		FROM connectors WHERE id = $1`, id)
	want(s, "failed: worker lost", `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, old)
	want(s, "running: rescue", `SELECT status || ': ' || trigger FROM scheduler_runs WHERE id = $1`, session)
	s.queued(session)
	if err := s.moves.Renew(t.Context(), old, owner, time.Minute); !errors.Is(err, lifecycle.ErrFenced) {
		t.Errorf("the lost worker renews: %v", err)
	}
}

func TestAWorkerLostAgainEndsInErrorWithABackoff(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.syncing(id, gone)
	s.rescue()
	second, _ := s.pickUp(id, gone)
	s.rescue()
	want(s, true, `SELECT status = 'ERROR' AND failure_count = 2 AND due_reason = 'retry'
		AND next_sync_at > clock_timestamp() + interval '3 minutes' FROM connectors WHERE id = $1`, id)
	want(s, "failed: worker lost", `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, second)
}

func TestAWorkerLostTooOftenDisables(t *testing.T) {
	for name, retries := range map[string]int{"the only try": 1, "the last of two": 2} {
		t.Run(name, func(t *testing.T) {
			s := setStage(t)
			id := s.connector(row{"max_retries": retries})
			s.syncing(id, gone)
			for range retries - 1 {
				s.rescue()
				s.pickUp(id, gone)
			}
			s.rescue()
			want(s, true, `SELECT status = 'DISABLED' AND failure_count = max_retries AND next_sync_at IS NULL
				AND status_message LIKE 'disabled after % failures in a row: worker lost%' FROM connectors WHERE id = $1`, id)
			want(s, 0, `SELECT count(*) FROM scheduler_runs WHERE status = 'running'`)
		})
	}
}

func TestALiveLeaseIsLeftAlone(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session, _ := s.syncing(id, time.Minute)
	s.rescue()
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, id)
}

func TestARescueIgnoresTheCap(t *testing.T) {
	s := setStage(t)
	s.connectors(4)
	for _, trigger := range s.claim(s.scheduler()) {
		s.pickUp(trigger.ID, gone)
	}
	s.connectors(1)
	scheduler := s.scheduler(func(cfg *Config) { cfg.MaxConcurrentSyncs = 1 })
	s.do(scheduler.Rescue(t.Context()))
	s.do(scheduler.Tick(t.Context()))
	want(s, 4, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND failure_count = 1`)
	want(s, 1, `SELECT count(*) FROM connectors WHERE status = 'ACTIVE'`)
}

func TestARescueTakesMoreThanOneBatch(t *testing.T) {
	s := setStage(t)
	s.connectors(7)
	for _, trigger := range s.claim(s.scheduler()) {
		s.pickUp(trigger.ID, gone)
	}
	s.do(s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 2 }).Rescue(t.Context()))
	want(s, 7, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
	if n := len(s.messages("web")); n != 7 {
		t.Errorf("%d messages, want 7", n)
	}
}

func TestADrainingRunIsNotRescued(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session, owner := s.syncing(id, gone)
	s.do(s.moves.Drain(t.Context(), session, owner, 1))
	s.exec(`UPDATE scheduler_runs SET picked_up_at = picked_up_at - interval '1 day'`)
	s.rescue()
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, id)
}

func TestARunOfWhichEverythingIsStoredIsNotRescued(t *testing.T) {
	s := setStage(t)
	kit, foreign := s.connector(nil), s.connector(nil)
	session, _ := s.syncing(kit, gone)
	s.exec(`UPDATE connectors SET status = 'SYNCING', lease_owner = NULL, lease_expires_at = NULL WHERE id = $1`, foreign)
	s.exec(`UPDATE scheduler_runs SET stored = 3, total = 3, picked_up_at = clock_timestamp() - interval '7 hours'`)
	s.rescue()
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, kit)
	want(s, 2, `SELECT count(*) FROM scheduler_runs WHERE status = 'running'`)
	s.exec(`UPDATE scheduler_runs SET total = 4`)
	s.rescue()
	want(s, 2, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)
}

func TestAForeignSubscriberIsRescuedOnlyAfterItsTimeout(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session := s.claim(s.scheduler())[0].Session
	s.exec(`UPDATE connectors SET status = 'SYNCING' WHERE id = $1 AND run_id = $2 AND status = 'PENDING'`, id, session)
	s.exec(`UPDATE scheduler_runs SET picked_up_at = picked_up_at - interval '5 hours 59 minutes'`)
	s.rescue()
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	s.exec(`UPDATE scheduler_runs SET picked_up_at = picked_up_at - interval '2 minutes'`)
	s.rescue()
	want(s, true, `SELECT status = 'PENDING' AND run_id <> $2 FROM connectors WHERE id = $1`, id, session)
}

func TestNobodyIsRescuedInTheFirstLeasePeriod(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session, _ := s.syncing(id, gone)
	scheduler := s.scheduler(func(cfg *Config) { cfg.LeaseSeconds = 3 })
	scheduler.holdRescue()
	s.do(scheduler.Rescue(t.Context()))
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	s.eventually(10*time.Second, func() error {
		s.do(scheduler.Rescue(t.Context()))
		return s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)()
	})
	if time.Now().Before(scheduler.rescueFrom) {
		t.Error("rescued within the lease period")
	}
}

func TestOfTwoSchedulersOneRescues(t *testing.T) {
	s := setStage(t)
	s.connectors(30)
	for _, trigger := range s.claim(s.scheduler()) {
		s.pickUp(trigger.ID, gone)
	}
	ended := make(chan error)
	for range 2 {
		scheduler := s.scheduler(func(cfg *Config) { cfg.ClaimBatch = 4 })
		go func() { ended <- scheduler.Rescue(t.Context()) }()
	}
	for range 2 {
		s.do(<-ended)
	}
	want(s, 30, `SELECT count(*) FROM connectors WHERE status = 'PENDING' AND failure_count = 1`)
	if n := len(s.messages("web")); n != 30 {
		t.Errorf("%d messages, want 30", n)
	}
}

func TestNobodyIsRescuedForALeaseAfterPostgresTookNoMoreConnections(t *testing.T) {
	t.Parallel()
	_, url := testkit.PrivatePostgres(t, db.Up)
	s := setStageOn(t, url)
	id := s.connector(nil)
	session, _ := s.syncing(id, gone)
	scheduler := s.scheduler(func(cfg *Config) { cfg.LeaseSeconds = 600 })
	var taken []*pgx.Conn
	for {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			taken = append(taken, conn)
		}
		if full, asked := scheduler.queries.IsFull(t.Context()); asked != nil || full == nil {
			t.Fatal(asked)
		} else if *full {
			break
		}
	}
	s.do(scheduler.Rescue(t.Context()))
	for _, conn := range taken {
		s.do(conn.Close(t.Context()))
	}
	s.do(scheduler.Rescue(t.Context()))
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	scheduler.rescueFrom = time.Now()
	s.do(scheduler.Rescue(t.Context()))
	want(s, "PENDING", `SELECT status FROM connectors WHERE id = $1`, id)
}
