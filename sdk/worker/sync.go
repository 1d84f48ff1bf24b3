package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
)

// sync runs the handler, with the run in hand, and settles what becomes of the connector.
func (w *Worker) sync(
	ctx context.Context, request *trigger, try lifecycle.Try, log *slog.Logger,
) error {
	running, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	running, fetching := w.servers.Tracer.Start(running, try.Run, tracing.Fetch)
	// A handler that takes too long is ended, and what it has sent is still published.
	handling, endHandler := context.WithCancelCause(running)
	defer endHandler(nil)
	clock := startClock(w.maxRun, func() { endHandler(errTooLong) })
	defer clock.stop()
	letGo := w.heart.hold(try, clock, end)
	defer letGo()
	defer w.endAtStop(ctx, running, end)()

	run := &Run{
		request: request, try: try, clock: clock, log: log, queries: w.queries, lifecycle: w.lifecycle, patience: w.queryTimeout,
		outbox: newOutbox(running, handling, try, w.connectorType, w.servers.Stream, w.servers.Tracer, w.heart.gate, clock,
			w.credits.of(try.ID, w.config.Credit, log), w.metrics, w.stall, w.config),
		locks: newLocks(running, try, w.locks, w.heart.gate, w.metrics, log),
		said:  said{lifecycle: w.lifecycle, try: try, log: log},
	}
	began := time.Now()
	err, returned := w.call(ctx, handling, run)
	w.metrics.fetching.Observe(time.Since(began).Seconds())
	run.outbox.seal()
	if again := run.locks.close(returned); again != nil {
		defer w.freeing.Go(func() { again(ctx) }) // once the end of the run is written
	}
	if !returned {
		endFetch(fetching, run, err)
		cause := context.Cause(handling)
		how := outcomeOf(err, cause)
		if how == released {
			how = releasedAtWork
		}
		w.settle(ctx, run, how, err, cause)
		return w.whileSlotsAreFree(ctx)
	}
	err = run.locks.blame(err)
	endFetch(fetching, run, err)
	how, err := w.flush(run, err)
	if how == completes {
		how, err = w.complete(ctx, run, err, letGo)
	}
	switch how {
	case cut, failsWhenStored:
		w.cut(ctx, run, how, err)
		return nil
	case postponedWhenStored:
		w.postponeWhenStored(ctx, run, err)
		return nil
	}
	w.settle(ctx, run, how, err, context.Cause(handling))
	return nil
}

// flush waits until the stream has what the handler has sent, and says what is to be done about the run.
func (w *Worker) flush(run *Run, err error) (outcome, error) {
	flushed := run.outbox.flush()
	if ended := context.Cause(run.outbox.ctx); ended != nil { // also while it waited
		if inOrder(err) {
			err = flushed
		}
		return whenStored(run, outcomeOf(err, ended), err), err
	}
	cause := context.Cause(run.outbox.handling)
	switch {
	case !inOrder(err):
	case cause != nil:
		err = cause
	case flushed != nil:
		err = flushed
	}
	return whenStored(run, outcomeOf(err, cause), err), err
}

// whenStored lets semantic store what a run has sent before it ends: where all of it is in the stream, and there is anything.
func whenStored(run *Run, how outcome, err error) outcome {
	var keeps *keepSentError
	switch {
	case run.outbox.total() == 0 || !run.outbox.isSent():
		return how
	case how == tooLong:
		return cut
	case how == postponed:
		return postponedWhenStored
	case how == failsForNow && errors.As(err, &keeps):
		return failsWhenStored
	}
	return how
}

// endAtStop cancels the run when the handlers' share of the grace of a clean stop is over. The returned function ends
// the watch.
func (w *Worker) endAtStop(ctx, running context.Context, end context.CancelCauseFunc) func() {
	return stopWatch(context.AfterFunc(ctx, func() {
		_ = repeat.Sleep(running, w.config.Grace-min(handOver, w.config.Grace/2))
		end(errStopping)
	}))
}

func stopWatch(stop func() bool) func() { return func() { stop() } }

// call runs the handler and turns a panic into an error. A handler that ignores the end of its context is left behind
// after a while: then it has not returned, and the error says so. A handler that waits for the stream to take numbered messages ignores nothing.
func (w *Worker) call(ctx, running context.Context, run *Run) (err error, returned bool) {
	ended := make(chan error, 1)
	go func() {
		over := false
		defer func() {
			p := recover()
			if p == nil && !over {
				p = "it ended its goroutine (runtime.Goexit)"
			}
			if p != nil {
				stack := debug.Stack()
				run.log.Error("the handler panicked; the sync fails and is tried again", "panic", secret.Text(fmt.Sprint(p)),
					"stack", string(stack))
				ended <- &panicError{value: p, stack: stack}
			}
		}()
		// What a source says of itself may hold a URL that is a secret, or a configuration that holds one.
		err := secret.Error(w.handle(running, run))
		over = true
		ended <- err
	}()
	select {
	case err := <-ended:
		return err, true
	case <-running.Done():
	}
	for told := false; ; told = true {
		taken := run.outbox.taken.Load()
		patience := w.stuckAfter
		if ctx.Err() != nil {
			patience = min(patience, stuckAtStop)
		}
		select {
		case err := <-ended:
			return err, true
		case <-time.After(patience):
		}
		if taken == run.outbox.toPublish.Load() { // it has waited for nothing all the while
			return w.strand(ended, context.Cause(running), run.log), false
		}
		if !told {
			run.log.Info("the sync is over, and its handler waits until the stream has taken what it is putting", "cause", context.Cause(running))
		}
	}
}

// complete publishes sync completed and starts draining. The lease is kept until sync completed is acknowledged:
// a broker that is away then is a wait, not a lost worker.
func (w *Worker) complete(
	ctx context.Context, run *Run, end error, letGo func(),
) (outcome, error) {
	failpoint.At("worker.fetched")
	if run.job.Load() != nil {
		return w.endJob(ctx, run, end)
	}
	held := errors.Is(run.said.last(ctx), lifecycle.ErrHeld) // before semantic can end the run
	run.mu.Lock()
	isWhole := run.endsWhole(end)
	run.mu.Unlock()
	if run.outbox.total() == 0 && !held && !isWhole { // else semantic looks for what the listing did not show
		if how, ended, err := w.skip(ctx, run, end); ended {
			return how, err
		}
	}
	seq, err := run.complete(end)
	if err != nil {
		return outcomeOf(err, context.Cause(run.outbox.ctx)), err
	}
	failpoint.At("worker.completed")
	defer w.heart.await(run.try)() // the lease is kept until it is given up
	letGo()
	err = w.persistAtStop(ctx, run.said.before(func(ctx context.Context) error { return w.lifecycle.Drain(ctx, run.try, seq) }))
	if errors.Is(err, lifecycle.ErrFenced) {
		err = nil // complete already
	}
	return completes, err
}

// skip ends a run that has sent nothing: there is nothing for semantic to store, and no need to ask it. It asks
// Postgres once. Without an answer in time, and after any error but that the run is over, the run is completed like every other: no slot
// and no stop waits, and a fault of this move alone fails no sync. Where the skip was written all the same, sync completed is fenced.
func (w *Worker) skip(ctx context.Context, run *Run, end error) (how outcome, ended bool, err error) {
	run.mu.Lock()
	newState, reason := run.finalState(), run.reason(end)
	run.mu.Unlock()
	state, err := wire.JSON(newState)
	if err != nil {
		return failsForNow, true, err
	}
	failpoint.At("worker.skipping")
	err = deadline.Do(ctx, "worker.skip", lastWrite, func(ctx context.Context) error {
		return w.lifecycle.Skip(ctx, run.try, state, reason, run.unchanged.Load())
	})
	failpoint.At("worker.skipped")
	switch {
	case err == nil:
		tracing.Of(ctx).Set(tracing.Verdict(string(lifecycle.Skipped)))
		run.log.Info("the sync has ended", "event", telemetry.Skipped)
		return skips, true, nil
	case errors.Is(err, lifecycle.ErrFenced):
		return abandoned, true, err
	case postgres.Unavailable(err), errors.Is(err, lifecycle.ErrHeld), ctx.Err() != nil:
		run.log.Info("the sync is left to semantic to end", "err", err)
	default:
		run.log.Warn("Postgres refuses to end a sync that has sent nothing; it is left to semantic to end", "err", err)
	}
	return completes, false, nil
}

// settle writes down what becomes of the connector, and before that what the run has said last.
func (w *Worker) settle(ctx context.Context, run *Run, how outcome, err, cause error) {
	try, log := run.try, run.log
	var write func(context.Context) error
	var verdict lifecycle.Verdict
	span := tracing.Of(ctx)
	ended := func(word string) {
		w.metrics.syncs.WithLabelValues(word).Inc()
		span.Set(tracing.Outcome(word))
	}
	switch how {
	case completes:
		ended("fetched")
		if err != nil {
			log.Warn("draining is not written down; the run completes, or is rescued, without it", "err", err)
		}
		return
	case done:
		ended("done")
		return
	case skips:
		ended("skipped")
		return
	case abandoned:
		ended("fenced")
		log.Info("the run is no longer this worker's; its work is dropped")
		return
	case released:
		ended("released")
		verdict = lifecycle.Superseded
		log.Info("handed back at a clean stop")
		write = func(ctx context.Context) error { return w.lifecycle.Release(ctx, try) }
	case releasedAtWork:
		ended("released")
		verdict = lifecycle.Superseded
		log.Info("handed back at a clean stop, but for its locks")
		write = func(ctx context.Context) error { return w.lifecycle.ReleaseAtWork(ctx, try) }
	case postponed:
		ended("postponed")
		verdict = lifecycle.Superseded
		wait := asPostponed(err)
		log.Info("the source asked to wait; the next sync is due then", "wait", time.Until(wait.until).Round(time.Second), "err", err)
		write = func(ctx context.Context) error {
			return w.lifecycle.Postpone(ctx, try, time.Until(wait.until), wait.Error())
		}
	default:
		kind := kinds[how]
		ended(string(kind))
		span.Fail(string(ledgerReasons[kind]))
		verdict = lifecycle.Failed
		log.Warn("the sync failed", "event", telemetry.Failed, "kind", kind, "err", err)
		write = func(ctx context.Context) error { return w.fail(ctx, try, kind, err, cause) }
	}
	if err = w.persistAtStop(ctx, run.said.before(write)); err == nil {
		span.Set(tracing.Verdict(string(verdict)))
	}
	notWritten(err, log)
}

// cut gives up a run that took too long, or fails: semantic stores what it has sent, and passes its checkpoints, before it fails. So a run
// is not failed for what semantic, which may be away, has not stored yet.
func (w *Worker) cut(ctx context.Context, run *Run, how outcome, err error) {
	kind := kinds[how]
	w.metrics.syncs.WithLabelValues(string(kind)).Inc()
	span := tracing.Of(ctx)
	span.Set(tracing.Outcome(string(kind)))
	span.Fail(string(ledgerReasons[kind]))
	sent, seq, text := run.outbox.total(), run.outbox.lastSequence(), err.Error()
	if how == cut {
		text = message(err, errTooLong)
	}
	run.log.Warn("the sync fails when what it has sent is stored", "kind", kind, "sent", sent, "err", err)
	notWritten(w.persistAtStop(ctx, run.said.before(func(ctx context.Context) error {
		return w.lifecycle.Cut(ctx, run.try, sent, seq, kind, text)
	})), run.log)
}

// postponeWhenStored puts a run off, once semantic has stored what it has sent and passed its checkpoints: what a scarce quota was spent on
// is not fetched again because semantic is behind.
func (w *Worker) postponeWhenStored(ctx context.Context, run *Run, err error) {
	w.metrics.syncs.WithLabelValues("postponed").Inc()
	tracing.Of(ctx).Set(tracing.Outcome("postponed"))
	sent, seq, wait := run.outbox.total(), run.outbox.lastSequence(), asPostponed(err)
	run.log.Info("the source asked to wait; the next sync is due then, once what this one has sent is stored",
		"wait", time.Until(wait.until).Round(time.Second), "sent", sent, "err", err)
	notWritten(w.persistAtStop(ctx, run.said.before(func(ctx context.Context) error {
		return w.lifecycle.PostponeWhenStored(ctx, run.try, sent, seq, time.Until(wait.until), wait.Error())
	})), run.log)
}

func notWritten(err error, log *slog.Logger) {
	if err != nil && !errors.Is(err, lifecycle.ErrFenced) {
		log.Warn("the end of the run is not written down; it is rescued when its lease runs out", "err", err)
	}
}

// persistAtStop repeats a write while Postgres is away, or somebody holds the connector. While the service stops it tries
// once more, and leaves the rest to the rescue.
func (w *Worker) persistAtStop(ctx context.Context, write func(context.Context) error) error {
	for range pauses.Tries(ctx) {
		if ctx.Err() != nil {
			break
		}
		err := write(context.WithoutCancel(ctx))
		if !postgres.Unavailable(err) && !errors.Is(err, lifecycle.ErrHeld) {
			return err
		}
	}
	return deadline.Do(context.WithoutCancel(ctx), "worker.hand_over", lastWrite, write)
}
