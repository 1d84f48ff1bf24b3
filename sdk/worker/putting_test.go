package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

// putting is a handler whose goroutines are in Put when it returns: each has a number, and waits for a place to publish.
type putting struct {
	c       trip
	release func()             // gives them places
	cancel  context.CancelFunc // ends the context that they were given
	puts    sync.WaitGroup
}

const putters = 8

// puts waits until the handler has returned what end returns, which is called once all its goroutines have their numbers.
func (f *fixture) puts(end func(context.Context) error, tune ...func(*worker.Worker)) *putting {
	f.t.Helper()
	p := &putting{c: f.triggered()}
	runs, numbered := make(chan *worker.Run, 1), make(chan struct{})
	f.workWith(func(cfg *worker.Config) { cfg.MaxInFlight = 1 }, func(ctx context.Context, run *worker.Run) error {
		p.release = run.HoldPlaces(1)
		var theirs context.Context
		theirs, p.cancel = context.WithCancel(ctx)
		for i := range putters {
			p.puts.Go(func() { _ = run.Put(theirs, note(i)) })
		}
		runs <- run
		<-numbered
		return end(ctx)
	}, tune...)
	run := await(f.t, "the handler", runs)
	f.t.Cleanup(p.cancel)
	testkit.Eventually(f.t, soon, func() error {
		if n := run.Numbers(); n != putters {
			return fmt.Errorf("%d numbers are taken", n)
		}
		return nil
	})
	close(numbered)
	testkit.Eventually(f.t, soon, func() error {
		if !run.Sealed() {
			return errors.New("the handler has not returned")
		}
		return nil
	})
	return p
}

func inTheEnd(context.Context) error { return nil }

func TestACutCountsNoNumberThatIsStillToBePublished(t *testing.T) {
	f := newFixture(t)
	p := f.puts(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}, maxRun(2*time.Second))
	p.release()
	p.puts.Wait()
	require.Equal(t, putters, f.isCut(p.c))
}

// NATS may be away when a run's time is over.
func TestAHandlerThatIsPuttingWhatHasItsNumberIsNotLeftBehind(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	runs, places := make(chan *worker.Run, 1), make(chan func(), 1)
	f.workWith(func(cfg *worker.Config) { cfg.MaxInFlight = 1 }, func(ctx context.Context, run *worker.Run) error {
		places <- run.HoldPlaces(1)
		runs <- run
		for i := 0; ; i++ {
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
		}
	}, maxRun(200*time.Millisecond), func(w *worker.Worker) { w.SetStuckAfter(2 * time.Second) })
	await(t, "the handler", runs)
	f.says("its handler waits until the stream has taken what it is putting")
	await(t, "its places", places)()
	require.Equal(t, 1, f.isCut(c))
}

func TestARunCompletesWithWhatItsGoroutinesWerePuttingWhenTheHandlerReturned(t *testing.T) {
	f := newFixture(t)
	p := f.puts(inTheEnd)
	p.release()
	p.puts.Wait()
	f.settled(p.c)
	f.is(p.c, `status = 'SYNCING' AND drain_seq IS NOT NULL AND failure_count = 0`)
	f.whole(p.c, putters)
}

func TestWhatHasANumberIsSentThoughItsContextEnds(t *testing.T) {
	f := newFixture(t)
	p := f.puts(inTheEnd)
	p.cancel()
	p.release()
	p.puts.Wait()
	f.settled(p.c)
	f.whole(p.c, putters)
}

func TestANumberWhosePutPanicsFailsTheRunAndHoldsNothingUp(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		assert.Panics(t, func() { _ = run.SendPanic(ctx) })
		return run.Put(ctx, note(1))
	})
	f.is(c, `status = 'ERROR' AND due_reason = 'retry' AND error_message = 'a message was given a number and never sent'`)
	require.NotContains(t, f.sent(c), int64(0))
}

func TestACutIsWholeHoweverManyGoroutinesPutWhenItsTimeIsOver(t *testing.T) {
	f := newFixture(t)
	for _, putters := range []int{8, 300} {
		c := f.triggered()
		var puts sync.WaitGroup
		r := f.workWith(func(cfg *worker.Config) { cfg.MaxInFlight, cfg.Credit = 2, 1<<30 }, func(ctx context.Context, run *worker.Run) error {
			for p := range putters {
				puts.Go(func() {
					for i := 0; run.Put(ctx, note(p*100_000+i)) == nil; i++ {
					}
				})
			}
			<-ctx.Done()
			return ctx.Err()
		}, maxRun(500*time.Millisecond))
		f.becomes(c, `drain_seq IS NOT NULL OR status NOT IN ('PENDING', 'SYNCING')`)
		puts.Wait()
		require.NoError(t, r.stop())
		f.is(c, `drain_seq IS NOT NULL`)
		sent := f.sent(c)
		require.Equal(t, fmt.Sprint(len(sent)), f.one(`SELECT total::text FROM open_runs WHERE id = $1`, c.session))
	}
}
