package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
)

// unstoppable is a handler that says when it begins, and returns when it is let go, whatever becomes of its context.
func unstoppable(t *testing.T) (handle worker.Handler, begun chan *worker.Run, letGo func()) {
	begun = make(chan *worker.Run, 8)
	free, let := context.WithCancel(context.Background())
	t.Cleanup(let)
	return func(_ context.Context, run *worker.Run) error {
		begun <- run
		<-free.Done()
		return nil
	}, begun, let
}

func impatient(w *worker.Worker) {
	w.SetMaxRun(50 * time.Millisecond)
	w.SetStuckAfter(50 * time.Millisecond)
}

// first handles the first sync, and second all others.
func first(handle, second worker.Handler) worker.Handler {
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	return func(ctx context.Context, run *worker.Run) error {
		select {
		case <-turn:
			return handle(ctx, run)
		default:
			return second(ctx, run)
		}
	}
}

func slots(n int) func(*worker.Config) { return func(cfg *worker.Config) { cfg.Slots = n } }

func TestAStuckHandlerThatTookTooLongFailsItsRunAndItsSlotGoesOn(t *testing.T) {
	f := newFixture(t)
	stuck, begun, letGo := unstoppable(t)
	handle, others, goOn := blocked()
	c := f.triggered()
	f.workWith(slots(2), first(stuck, handle), func(w *worker.Worker) {
		w.SetMaxRun(time.Second)
		w.SetStuckAfter(50 * time.Millisecond)
	})
	await(t, "the handler", begun)
	f.becomes(c, `status = 'ERROR' AND due_reason = 'retry' AND failure_count = 1 AND verdict = 'failed' AND error_message =
		'the sync took longer than it may, and its handler did not end when it was told to'`)
	f.measures("worker_stuck_handlers", 1)
	f.says("connector=" + f.one(`SELECT $1::int::text`, c.id))
	a, b := f.triggered(), f.triggered()
	await(t, "one slot", others)
	await(t, "the other slot", others)
	close(goOn)
	f.settled(a)
	f.settled(b)
	letGo()
	f.measures("worker_stuck_handlers", 0)
}

func TestAStuckHandlerWhoseRunWasFencedChangesNothing(t *testing.T) {
	f := newFixture(t)
	stuck, begun, letGo := unstoppable(t)
	c := f.triggered()
	r := f.workWith(func(cfg *worker.Config) { cfg.Slots, cfg.LeaseSeconds = 2, 3 }, stuck, func(w *worker.Worker) {
		w.SetStuckAfter(50 * time.Millisecond)
	})
	await(t, "the handler", begun)
	f.rescued(c)
	before := f.everything(c)
	f.measures("worker_stuck_handlers", 1)
	f.says("no longer this worker's")
	letGo()
	f.measures("worker_stuck_handlers", 0)
	require.NoError(t, r.stop())
	require.Equal(t, before, f.everything(c))
}

func TestTheLockOfAStuckHandlerIsHeldForItsTTL(t *testing.T) {
	f := newFixture(t)
	locks, letGo := make(chan *worker.Lock, 1), make(chan struct{})
	c := f.triggered()
	f.workWith(slots(2), func(ctx context.Context, run *worker.Run) error {
		lock, err := run.Acquire(ctx, gpu, time.Hour)
		locks <- lock
		<-letGo // whatever ctx says
		return err
	}, maxRun(time.Second), func(w *worker.Worker) { w.SetStuckAfter(50 * time.Millisecond) })
	lock := await(t, "the lock", locks)
	f.becomes(c, `status = 'ERROR' AND failure_count = 1`)
	require.Error(t, lock.Context().Err())
	f.locked("1 held, 0 wait")
	close(letGo)
	f.measures("worker_stuck_handlers", 0)
}

// holding is a unstoppable handler that has locks with these ttls.
func holding(keys map[string]time.Duration) (handle worker.Handler, locks chan *worker.Lock, letGo chan struct{}) {
	locks, letGo = make(chan *worker.Lock, len(keys)), make(chan struct{})
	return func(ctx context.Context, run *worker.Run) error {
		for key, ttl := range keys {
			lock, err := run.Acquire(ctx, key, ttl)
			if err != nil {
				return err
			}
			locks <- lock
		}
		<-letGo // whatever ctx says
		return nil
	}, locks, letGo
}

func TestTheLockOfAStuckHandlerIsHeldForItsTTLThoughItsRunIsHandedBack(t *testing.T) {
	f := newFixture(t)
	handle, locks, letGo := holding(map[string]time.Duration{gpu: time.Hour})
	c := f.triggered()
	r := f.workWith(slots(2), handle, func(w *worker.Worker) { w.SetStuckAfter(50 * time.Millisecond) })
	await(t, "the lock", locks)
	require.ErrorIs(t, r.stop(), worker.ErrStuck)
	f.is(c, handedBack)
	f.locked("1 held, 0 wait")
	close(letGo)
}

func TestAStuckHandlerThatHasLostALockFailsItsRunAndHoldsTheOthers(t *testing.T) {
	f := newFixture(t)
	handle, locks, letGo := holding(map[string]time.Duration{"scanner:1": 2 * time.Second, gpu: time.Hour})
	c := f.triggered()
	f.workWith(slots(2), handle, maxRun(5*time.Second), func(w *worker.Worker) { w.SetStuckAfter(50 * time.Millisecond) })
	for range 2 {
		if lock := await(t, "a lock", locks); lock.Key() != gpu {
			f.exec(`SELECT moves.release_lock('scanner:1', NULL, 'ann')`)
			<-lock.Context().Done()
			require.ErrorIs(t, context.Cause(lock.Context()), lifecycle.ErrLockLost)
		}
	}
	f.becomes(c, `status = 'ERROR' AND failure_count = 1 AND verdict = 'failed' AND error_message =
		'the sync took longer than it may, and its handler did not end when it was told to'`)
	require.Equal(t, gpu, f.one(`SELECT string_agg(key, ' ') FROM resource_locks`))
	close(letGo)
	f.measures("worker_stuck_handlers", 0)
}

func TestAHandlerThatWasToldToEndIsGivenNoLock(t *testing.T) {
	f := newFixture(t)
	refused := make(chan error, 1)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		if _, err := run.Acquire(ctx, gpu, time.Minute); err != nil {
			return err
		}
		<-ctx.Done()
		for _, key := range []string{gpu, "scanner:1"} {
			if _, err := run.Acquire(context.WithoutCancel(ctx), key, time.Minute); err == nil {
				return fmt.Errorf("it is given %s", key)
			} else if key == gpu {
				refused <- err
			}
		}
		return ctx.Err()
	}, maxRun(time.Second))
	require.ErrorContains(t, await(t, "the answer", refused), "took longer than it may")
	f.becomes(c, `verdict = 'failed' AND error_message = 'the sync took longer than it may'`)
	f.locked("0 held, 0 wait")
}

func TestAStuckJobFailsItsRun(t *testing.T) {
	f := newFixture(t)
	letGo := make(chan struct{})
	c := f.pending()
	f.publish(c)
	jobs(f, worker.Job[struct{}]{Work: func(context.Context, *worker.JobRun, struct{}) (any, error) {
		<-letGo
		return nil, nil
	}}, maxRun(time.Second), func(w *worker.Worker) { w.SetStuckAfter(50 * time.Millisecond) })
	f.becomes(c, `verdict = 'failed' AND error_message = 'the sync took longer than it may, and its handler did not end when it was told to'`)
	close(letGo)
}

func TestWithAsManyStuckHandlersAsSlotsRunEnds(t *testing.T) {
	f := newFixture(t)
	stuck, begun, _ := unstoppable(t)
	a, b := f.triggered(), f.triggered()
	r := f.workWith(slots(2), stuck, impatient)
	await(t, "one handler", begun)
	await(t, "the other handler", begun)
	require.ErrorIs(t, await(t, "the end of Run", r.ended), worker.ErrStuck)
	r.ended <- nil
	for _, c := range []trip{a, b} {
		f.is(c, `status = 'ERROR' AND failure_count = 1`)
	}
}

func TestWhatWaitsIsLeftToOthersWhenTheLastSlotIsStuck(t *testing.T) {
	f := newFixture(t)
	stuck, begun, letGo := unstoppable(t)
	handle, other, _ := blocked()
	a := f.triggered()
	r := f.workWith(slots(1), first(stuck, handle), impatient)
	await(t, "the handler", begun)
	b := f.triggered()
	require.ErrorIs(t, await(t, "the end of Run", r.ended), worker.ErrStuck)
	r.ended <- nil
	letGo()
	f.is(a, `status = 'ERROR'`)
	f.is(b, `status = 'PENDING'`)
	require.Empty(t, other)
	require.Equal(t, 1, f.held(topology.SyncStream), "its message waits for another worker")
}

func TestAHandlerThatIgnoresACleanStopIsHandedBackAndRunSaysSo(t *testing.T) {
	f := newFixture(t)
	stuck, begun, _ := unstoppable(t)
	c := f.triggered()
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace, cfg.Slots = 0, 4 }, stuck, func(w *worker.Worker) {
		w.SetStuckAfter(50 * time.Millisecond)
	})
	await(t, "the handler", begun)
	require.ErrorIs(t, r.stop(), worker.ErrStuck)
	f.is(c, `status = 'ACTIVE' AND due_reason = 'release' AND failure_count = 0 AND verdict = 'superseded'`)
}

func TestACleanStopTellsOfAHandlerThatWasLeftBehindBefore(t *testing.T) {
	f := newFixture(t)
	stuck, begun, letGo := unstoppable(t)
	f.triggered()
	r := f.workWith(slots(4), stuck, impatient)
	await(t, "the handler", begun)
	f.measures("worker_stuck_handlers", 1)
	require.ErrorIs(t, r.stop(), worker.ErrStuck)
	letGo()
}

func TestNothingThatAHandlerDoesAfterTheEndOfItsRunHasAnEffect(t *testing.T) {
	f := newFixture(t)
	stuck, begun, letGo := unstoppable(t)
	c := f.triggered()
	f.workWith(slots(2), stuck, impatient)
	run := await(t, "the handler", begun)
	f.becomes(c, `status = 'ERROR'`)
	before := f.everything(c)
	// A context that knows nothing of the run's: that of a handler which has made one of its own.
	for name, call := range map[string]func() error{
		"put":        func() error { return run.Put(ctx, note(1)) },
		"touch":      func() error { return run.Touch(ctx, note(1)) },
		"delete":     func() error { return run.Delete(ctx, "note/1") },
		"known":      func() error { _, err := run.Known(ctx); return err },
		"links":      func() error { _, err := run.Links(ctx, "note/1"); return err },
		"permission": func() error { _, err := run.DeletionsAllowed(ctx); return err },
		"its own question": func() error {
			return run.Patiently(ctx, "test.question", func(context.Context) error { t.Error("asked"); return nil })
		},
	} {
		require.ErrorContains(t, call(), "took longer than it may", name)
	}
	require.NoError(t, run.SetState(map[string]any{"cursor": "x"}))
	run.Unchanged(1)
	run.ListingPartial()
	letGo()
	f.measures("worker_stuck_handlers", 0)
	require.Equal(t, before, f.everything(c))
	require.Empty(t, f.sent(c))
}

func TestAQuestionThatWaitsForPostgresEndsWithItsRun(t *testing.T) {
	f, server := newPrivateFixture(t)
	asked := make(chan error, 1)
	c := f.triggered()
	begun, away := make(chan struct{}), make(chan struct{})
	r := f.work(func(_ context.Context, run *worker.Run) error {
		close(begun)
		<-away
		_, err := run.Known(ctx)
		asked <- err
		return err
	})
	await(t, "the handler", begun)
	require.NoError(t, server.Stop(ctx))
	close(away)
	f.says("a sync waits for Postgres")
	r.cancel() // the run ends with the grace of the stop
	require.Error(t, await(t, "the question", asked))
	require.NoError(t, r.stop())
	require.NoError(t, server.Restart(ctx))
	f.becomes(c, `status = 'SYNCING' AND failure_count = 0`)
}
