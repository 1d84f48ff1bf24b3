//go:build !race

package scheduler

import (
	"context"
	"errors"
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
	scheduler := s.patient(3)
	scheduler.leases.Forget()
	began := time.Now()
	s.do(scheduler.Rescue(t.Context()))
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	s.eventually(10*time.Second, s.rescued(scheduler))
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("rescued after %s", took)
	}
}

func TestAForeignSubscriberIsNotRescuedForALeaseEither(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.claim(s.scheduler())
	s.pickUpForeign(id)
	s.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '1 day'`)
	scheduler := s.patient(3)
	scheduler.leases.Forget()
	s.do(scheduler.Rescue(t.Context()))
	want(s, "SYNCING", `SELECT status FROM connectors WHERE id = $1`, id)
	s.eventually(10*time.Second, s.rescued(scheduler))
}

// A worker beats every third of its lease. Its last heartbeat is at the start, so that the lease ends 3 s later.
func TestAKilledWorkersRunIsClaimedAgainByTheFirstLookBehindItsLease(t *testing.T) {
	s := setStage(t)
	scheduler := s.patient(3)
	id := s.connector(nil)
	s.claim(scheduler)
	began := time.Now()
	s.pickUp(id, 3*time.Second)
	s.do(scheduler.Rescue(t.Context()))
	seen := time.Now()
	s.eventually(10*time.Second, func() error {
		if time.Since(seen) < 3500*time.Millisecond {
			if looked := s.rescued(scheduler)(); looked == nil && time.Since(began) < 3*time.Second {
				t.Fatalf("rescued %s after it was picked up", time.Since(began))
			}
			return errors.New("the lease may not be over")
		}
		return nil
	})
	s.do(s.rescued(scheduler)())
}

func TestAClockOfPostgresThatStepsForwardRescuesNobodyWhoBeats(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.claim(s.scheduler())
	try, worker := lifecycle.Try{Run: s.session(id), ID: uuid.New()}, uuid.New()
	s.do(s.moves.PickUp(t.Context(), id, try, worker, 3*time.Second))
	scheduler := s.patient(3)
	began := time.Now()
	s.eventually(20*time.Second, func() error {
		// After the step its lease is over the moment it is given.
		_, err := s.moves.Heartbeat(t.Context(), worker, 3*time.Second, []lifecycle.Try{try})
		s.do(err)
		s.exec(`UPDATE workers SET expires_at = expires_at - interval '1 hour'`)
		for range 3 {
			s.do(scheduler.Rescue(t.Context()))
		}
		if time.Since(began) < 7*time.Second {
			return errors.New("not two leases yet")
		}
		return nil
	})
	want(s, try.Run, `SELECT run_id FROM connectors WHERE id = $1 AND status = 'SYNCING'`, id)
	s.eventually(10*time.Second, s.rescued(scheduler)) // once it beats no more
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
	scheduler := s.patient(3)
	s.do(scheduler.Rescue(t.Context()))
	holder, err := s.servers.Pool.Begin(t.Context())
	s.do(err)
	_, err = holder.Exec(t.Context(), `LOCK TABLE connectors IN EXCLUSIVE MODE`)
	s.do(err)
	s.eventually(10*time.Second, func() error {
		if err := scheduler.Rescue(t.Context()); err == nil {
			return errors.New("it did not wait for the lock yet")
		}
		return nil
	})
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
	scheduler := s.patient(3)
	s.do(scheduler.Rescue(t.Context()))
	s.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = 'query_canceled'; END $$`)
	s.exec(`CREATE TRIGGER slow BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION slow()`)
	for range 2 {
		s.eventually(10*time.Second, func() error {
			if err := scheduler.Rescue(t.Context()); !postgres.Unavailable(err) {
				return fmt.Errorf("it was not slow yet: %w", err)
			}
			return nil
		})
		if scheduler.leases.Held() {
			t.Error("a slow batch was taken for Postgres being away")
		}
	}
	s.exec(`DROP TRIGGER slow ON runs`)
	s.eventually(10*time.Second, s.rescued(scheduler))
}

func TestNobodyIsRescuedForALeaseAfterPostgresTookNoMoreConnections(t *testing.T) {
	t.Parallel()
	_, url := testkit.PrivatePostgres(t, db.Up)
	s := setStageOn(t, url)
	id := s.connector(nil)
	session := s.syncing(id, gone).Run
	scheduler := s.patient(4)
	s.eventually(20*time.Second, func() error { // it has been silent for longer than a lease when Postgres is full
		_, err := scheduler.leases.Look(t.Context())
		s.do(err)
		if silent, _ := scheduler.leases.Look(t.Context()); string(silent) == "[]" {
			return errors.New("not silent yet")
		}
		return nil
	})
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
	full := time.Now()
	s.do(taken[0].Close(t.Context())) // one is enough, and to close all of them may take longer than a lease
	s.do(scheduler.Rescue(t.Context()))
	want(s, session, `SELECT run_id FROM connectors WHERE id = $1`, id)
	s.eventually(20*time.Second, s.rescued(scheduler))
	if took := time.Since(full); took < 3*time.Second {
		t.Errorf("rescued %s after Postgres was full", took)
	}
}
