//go:build !race

package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/testkit"
)

// rescued is nil when a scheduler's look has claimed a connector again.
func (s *stage) rescued(scheduler *Scheduler) func() error {
	return func() error {
		s.do(scheduler.Rescue(s.Context()))
		return s.countIs(1, `SELECT count(*) FROM connectors WHERE status = 'PENDING'`)()
	}
}

func TestNobodyIsRescuedForALeaseAfterTheSchedulerWasAway(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	session := s.syncing(id, gone).Run
	scheduler, past := s.patientBy(3)
	scheduler.leases.Forget()
	for _, by := range []time.Duration{0, 3*time.Second - 1} {
		past(by)
		s.do(scheduler.Rescue(t.Context()))
		want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	}
	past(1)
	s.do(s.rescued(scheduler)())
}

func TestAForeignSubscriberIsNotRescuedForALeaseEither(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.claim(s.scheduler())
	s.pickUpForeign(id)
	s.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '1 day'`)
	scheduler, past := s.patientBy(3)
	scheduler.leases.Forget()
	for _, by := range []time.Duration{0, 3*time.Second - 1} {
		past(by)
		s.do(scheduler.Rescue(t.Context()))
		want(s, "SYNCING", `SELECT status FROM connectors WHERE id = $1`, id)
	}
	past(1)
	s.do(s.rescued(scheduler)())
}

// The scheduler's time runs from the last heartbeat on, beside the lease and not behind it.
func TestAKilledWorkersRunIsClaimedAgainByTheFirstLookBehindItsLease(t *testing.T) {
	s := setStage(t)
	scheduler, past := s.patientBy(3)
	id := s.connector(nil)
	s.claim(scheduler)
	session := s.pickUp(id, time.Hour).Run
	s.do(scheduler.Rescue(t.Context()))
	past(3 * time.Second)
	s.do(scheduler.Rescue(t.Context()))
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id) // its lease is not over
	s.exec(`UPDATE workers SET expires_at = clock_timestamp()`)
	s.do(s.rescued(scheduler)())
}

func TestAClockOfPostgresThatStepsForwardRescuesNobodyWhoBeats(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.claim(s.scheduler())
	try, worker := lifecycle.Try{Run: s.session(id), ID: uuid.New()}, uuid.New()
	s.do(s.moves.PickUp(t.Context(), id, try, worker, 3*time.Second))
	scheduler, past := s.patientBy(3)
	for range 9 { // three leases
		// After the step its lease is over the moment it is given.
		_, err := s.moves.Heartbeat(t.Context(), worker, 3*time.Second, []lifecycle.Try{try})
		s.do(err)
		s.exec(`UPDATE workers SET expires_at = expires_at - interval '1 hour'`)
		for range 3 {
			s.do(scheduler.Rescue(t.Context()))
		}
		past(time.Second)
	}
	want(s, try.Run, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, id)
	past(2 * time.Second) // it beats no more
	s.do(s.rescued(scheduler)())
}

func TestAnErrorWhileItLooksForgetsWhomItSaw(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.syncing(id, gone)
	scheduler := s.patient(600)
	s.do(scheduler.Rescue(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scheduler.leases.Look(ctx); err == nil {
		t.Error("a look that was broken off found nothing wrong")
	}
	if !scheduler.leases.Held() {
		t.Error("it goes on from what it saw before")
	}
}

func TestALockThatSomebodyHoldsForgetsNobody(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.syncing(id, gone)
	scheduler, past := s.patientBy(3)
	s.do(scheduler.Rescue(t.Context()))
	past(3 * time.Second)
	holder, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	_, err = holder.Exec(t.Context(), `LOCK TABLE connectors IN EXCLUSIVE MODE`)
	s.do(err)
	if err := scheduler.Rescue(t.Context()); !postgres.Locked(err) {
		t.Errorf("it did not wait for the lock: %v", err)
	}
	if scheduler.leases.Held() {
		t.Error("a lock that somebody holds was taken for Postgres being away")
	}
	s.do(holder.Rollback(t.Context()))
	s.do(s.rescued(scheduler)())
}

func TestABatchThatTakesTooLongDoesNotBeginThePatienceAgain(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.syncing(id, gone)
	scheduler, past := s.patientBy(3)
	s.do(scheduler.Rescue(t.Context()))
	s.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = 'query_canceled'; END $$`)
	s.exec(`CREATE TRIGGER slow BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION slow()`)
	for range 2 {
		past(3 * time.Second)
		if err := scheduler.Rescue(t.Context()); !postgres.Unavailable(err) {
			t.Errorf("it was not slow: %v", err)
		}
		if scheduler.leases.Held() {
			t.Error("a slow batch was taken for Postgres being away")
		}
	}
	s.exec(`DROP TRIGGER slow ON runs`)
	past(3 * time.Second)
	s.do(s.rescued(scheduler)())
}

func TestNobodyIsRescuedForALeaseAfterPostgresTookNoMoreConnections(t *testing.T) {
	t.Parallel()
	_, url := testkit.PrivatePostgres(t, db.Up)
	s := setStageOn(t, url)
	id := s.connector(nil)
	session := s.syncing(id, gone).Run
	scheduler, past := s.patientBy(4)
	_, err := scheduler.leases.Look(t.Context())
	s.do(err)
	past(4 * time.Second) // it has been silent for a lease when Postgres is full
	if silent, err := scheduler.leases.Look(t.Context()); err != nil || string(silent) == "[]" {
		t.Errorf("silent are %s, %v", silent, err)
	}
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
	t.Cleanup(func() {
		for _, conn := range taken {
			_ = conn.Close(context.Background())
		}
	})
	s.do(scheduler.Rescue(t.Context()))
	s.do(taken[0].Close(t.Context())) // one is enough
	s.eventually(20*time.Second, func() error {
		if full, err := scheduler.queries.IsFull(t.Context()); err != nil || full == nil || *full {
			return fmt.Errorf("still full: %v, %w", full, err)
		}
		return nil
	})
	for _, by := range []time.Duration{0, 4*time.Second - 1} {
		past(by)
		s.do(scheduler.Rescue(t.Context()))
		want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	}
	past(1)
	s.do(s.rescued(scheduler)())
}
