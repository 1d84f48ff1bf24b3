package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestEveryMessageCarriesTheTryThatPickedTheRunUp(t *testing.T) {
	f := newFixture(t)
	tries := make(chan lifecycle.Try, 1)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		tries <- run.Try()
		for _, err := range []error{run.Put(ctx, note(1)), run.Delete(ctx, "note/2"), run.Checkpoint(ctx, page{1})} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	try := await(t, "the try", tries)
	require.Equal(t, c.session, try.Run)
	require.Equal(t, try.ID.String(), f.one(`SELECT try_id::text FROM open_runs WHERE id = $1`, c.session))
	for no, m := range f.whole(c, 3) { // which compares message and headers
		require.Equal(t, try.ID.String(), m.Try, no)
	}
}

func TestEachPickUpIsATryOfItsOwnAndOneWorkerHoldsThemAll(t *testing.T) {
	f := newFixture(t)
	handle, begun, goOn := blocked()
	a, b := f.triggered(), f.triggered()
	f.workWith(slots(2), handle)
	first, second := await(t, "one handler", begun), await(t, "the other handler", begun)
	require.NotEqual(t, first.Try().ID, second.Try().ID)
	require.Equal(t, "1 1", f.one(`SELECT concat(count(DISTINCT worker_id), ' ', (SELECT count(*) FROM workers)) FROM open_runs`))
	close(goOn)
	f.settled(a)
	f.settled(b)
}

// A standby took over that had not got the pick-up: the scheduler sent the message again, under the same run.
func TestOfTwoTriesUnderOneRunTheFirstEndsAndWritesNothing(t *testing.T) {
	f := newFixture(t)
	handle, begun, goOn := blocked()
	c := f.triggered()
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds, cfg.Slots = 3, 1 }, handle)
	lost := await(t, "the first handler", begun)
	movestest.Force(t, f.pool, `UPDATE open_runs SET picked_up_at = NULL, try_id = NULL, worker_id = NULL WHERE id = $1`, c.session)
	movestest.Force(t, f.pool, `UPDATE connectors SET status = 'PENDING' WHERE id = $1`, c.id)
	firsts := f.said
	f.publish(c)
	f.workWith(slots(1), handle)
	stands := await(t, "the second handler", begun)
	require.Equal(t, lost.Try().Run, stands.Try().Run)
	require.NotEqual(t, lost.Try().ID, stands.Try().ID)
	f.said = firsts
	f.says("no longer this worker's")
	require.Error(t, lost.Put(ctx, note(2)), "sent by a try that is over")
	close(goOn)
	f.settled(c)
	f.is(c, drains+` AND try_id = '`+stands.Try().ID.String()+`'`)
	for no, m := range f.whole(c, 1) {
		require.Equal(t, stands.Try().ID.String(), m.Try, no)
	}
}

// hold locks a connector's row until the returned function is called.
func (f *fixture) hold(c trip) (letGo func()) {
	return f.holdBy(`SELECT FROM connectors WHERE id = $1 FOR UPDATE`, c.id)
}

// holdRun locks the row of its open run.
func (f *fixture) holdRun(c trip) (letGo func()) {
	return f.holdBy(`SELECT FROM open_runs WHERE id = $1 FOR UPDATE`, c.session)
}

func (f *fixture) holdBy(sql string, args ...any) (letGo func()) {
	f.t.Helper()
	lock, err := f.pool.Begin(ctx)
	require.NoError(f.t, err)
	_, err = lock.Exec(ctx, sql, args...)
	require.NoError(f.t, err)
	return func() { require.NoError(f.t, lock.Rollback(ctx)) }
}

// The heartbeat names the try that waits to be picked up, too, and is told that it is not the worker's: that says nothing of the run's
// other try, which is in hand.
func TestARepeatedTriggerWhosePickUpWaitsDoesNotEndTheRunInHand(t *testing.T) {
	f := newFixture(t)
	handle, begun, goOn := blocked()
	c := f.triggered()
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds, cfg.Slots = 3, 2 }, handle)
	run := await(t, "the handler", begun)
	letGo := f.hold(c)
	f.publish(c)
	const beats = `SELECT (beats + 2)::text FROM workers`
	var two string
	testkit.Eventually(t, soon, func() error {
		two = f.one(beats) // the second beat begins while the pick-up waits
		if waits := f.one(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND query LIKE '%moves.pick_up%'`); waits != "1" {
			return errors.New("no pick-up waits")
		}
		return nil
	})
	testkit.Eventually(t, soon, func() error {
		if f.one(`SELECT (beats >= $1::bigint)::text FROM workers`, two) != "true" {
			return errors.New("the worker has not beaten twice")
		}
		return nil
	})
	require.NoError(t, run.Put(ctx, note(2)), "the run goes on")
	letGo()
	close(goOn)
	f.settled(c)
	f.is(c, drains+` AND try_id = '`+run.Try().ID.String()+`'`)
}

func TestAConnectorThatSomebodyHoldsIsHandedBackAndItsSlotGoesOn(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	letGo := f.hold(c)
	handle, begun, goOn := blocked()
	close(goOn)
	f.workWith(slots(1), handle)
	f.publish(c)
	f.says("somebody holds the connector")
	other := f.triggered()
	f.settled(other)
	f.is(other, drains)
	require.Equal(t, other.session, await(t, "the other handler", begun).Try().Run)
	f.is(c, `status = 'PENDING' AND failure_count = 0`)
	require.Equal(t, 1, f.held(topology.SyncStream), "its message waits")
	letGo()
	f.settled(c)
	f.is(c, drains)
}

func TestTheEndOfARunWhoseConnectorSomebodyHoldsIsWrittenOnceItIsFree(t *testing.T) {
	for name, c := range map[string]struct {
		end   error
		sends bool
		then  string
	}{
		"failed":  {errSource, false, `status = 'ERROR' AND failure_count = 1 AND verdict = 'failed'`},
		"skipped": {nil, false, drains}, // semantic ends it
		"drained": {nil, true, drains},  // which needs no more than the run's row
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			trip := f.triggered()
			begun, goOn := make(chan struct{}), make(chan struct{})
			f.work(func(ctx context.Context, run *worker.Run) error {
				close(begun)
				<-goOn
				if c.sends {
					return errors.Join(run.Put(ctx, note(1)), c.end)
				}
				return c.end
			})
			await(t, "the handler", begun)
			letGo := f.hold(trip)
			close(goOn)
			if c.end != nil { // until it was refused once: lock_timeout
				f.refusedOnce()
			}
			if name == "skipped" { // it waits for nobody
				f.becomes(trip, c.then)
			}
			letGo()
			f.becomes(trip, c.then)
		})
	}
}

// refusedOnce waits until somebody has waited for a lock in vain.
func (f *fixture) refusedOnce() {
	f.t.Helper()
	const waiting = `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for _, want := range []string{"1", "0"} {
		testkit.Eventually(f.t, soon, func() error {
			if n := f.one(waiting); n != want {
				return errors.New(n + " wait for a lock")
			}
			return nil
		})
	}
}

func TestAStopWhileSomebodyHoldsTheConnectorEndsAndLeavesTheRunToTheRescue(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	handle, begun, _ := blocked()
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = 10 * time.Millisecond }, handle)
	await(t, "the handler", begun)
	letGo := f.hold(c)
	require.NoError(t, r.stop())
	f.is(c, `status = 'SYNCING' AND failure_count = 0 AND lease_expires_at IS NOT NULL`)
	letGo()
}

func TestAWorkerThatPostgresDoesNotKnowPullsNothing(t *testing.T) {
	f, server := newPrivateFixture(t)
	c := f.triggered()
	handle, begun, goOn := blocked()
	close(goOn)
	w := f.newWorker(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, handle)
	require.NoError(t, server.Stop(ctx))
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	f.says("no heartbeat was answered for a whole lease")
	require.Empty(t, begun)
	require.Equal(t, 1, f.held(topology.SyncStream))
	_, err := f.js.Consumer(ctx, topology.SyncStream, "sync_file")
	require.Error(t, err, "it has no consumer yet")
	require.NoError(t, server.Restart(ctx))
	f.settled(c)
	f.is(c, drains)
	cancel()
	require.NoError(t, await(t, "the end of the worker", ended))
}

func TestAWorkerThatIsStoppedBeforePostgresKnowsItEnds(t *testing.T) {
	f, server := newPrivateFixture(t)
	w := f.newWorker(func(*worker.Config) {}, func(context.Context, *worker.Run) error { return nil })
	require.NoError(t, server.Stop(ctx))
	working, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	cancel()
	require.NoError(t, await(t, "the end of the worker", ended))
	require.NoError(t, server.Restart(ctx))
}

func TestAHandlersOwnQuestionIsAskedAgainUntilItIsAnswered(t *testing.T) {
	f := newFixture(t)
	asked := 0
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		err := run.Patiently(ctx, "test.question", func(ctx context.Context) error {
			switch asked++; asked {
			case 1:
				return context.DeadlineExceeded
			case 2:
				return &pgconn.PgError{Code: "55P03"} // somebody holds a row
			}
			_, err := f.pool.Exec(ctx, `SELECT 1`)
			return err
		})
		return errors.Join(err, run.Put(ctx, note(1)))
	})
	f.is(c, drains)
	require.Equal(t, 3, asked)
}

// The worker lives and beats on, and would keep the run for ever.
func TestARunWhoseEndCannotBeWrittenDownIsFoundLostThoughItsWorkerLives(t *testing.T) {
	f := newFixture(t)
	f.exec(`ALTER TABLE runs ADD CONSTRAINT refused CHECK (error_message IS DISTINCT FROM $$the source said no$$)`)
	c := f.triggered()
	handle, begun, goOn := blocked()
	f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 },
		first(func(context.Context, *worker.Run) error { return errSource }, handle))
	f.says("the end of the run is not written down")
	kept := f.triggered()
	await(t, "the next handler", begun)
	f.becomes(c, `status = 'SYNCING' AND lease_expires_at < clock_timestamp()`)
	f.is(kept, `status = 'SYNCING' AND lease_expires_at > clock_timestamp()`)
	close(goOn)
	f.settled(kept)
	f.is(kept, drains)
}
