package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

var errAsked = errors.New("the drive asked us to wait")

// put off for an hour, but for what has passed since.
const putOff = `status = 'ACTIVE' AND due_reason = 'wait' AND failure_count = 0 AND status_message = 'the drive asked us to wait'
	AND next_sync_at BETWEEN clock_timestamp() + interval '55 minutes' AND clock_timestamp() + interval '1 hour'
	AND verdict = 'superseded' AND reason = 'postponed' AND error_message = 'the drive asked us to wait'`

func TestASourceThatAsksToWaitPutsItsSyncOffAndItIsNoFailure(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, c.id)
	f.work(func(context.Context, *worker.Run) error { return worker.Postponed(time.Hour, errAsked) })
	f.settled(c)
	f.is(c, putOff)
}

// storesAndCompletes says that everything a connector's run has sent is stored, as semantic does.
func (f *fixture) storesAndCompletes(c trip) {
	f.t.Helper()
	f.exec(`UPDATE open_runs SET stored = total, whole = true WHERE connector_id = $1`, c.id)
	f.exec(`SELECT moves.complete(id) FROM open_runs WHERE connector_id = $1`, c.id)
}

func TestASyncThatHasSentSomethingIsPutOffWhenThatIsStored(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		return errors.Join(run.Put(ctx, note(1)), run.Checkpoint(ctx, page{1}), fmt.Errorf("list the drive: %w", worker.Postponed(time.Hour, errAsked)))
	})
	require.Equal(t, 2, f.drainsAsIs(c, `cut = 'the drive asked us to wait'
		AND waits_until BETWEEN clock_timestamp() + interval '55 minutes' AND clock_timestamp() + interval '1 hour'`))
	f.storesAndCompletes(c)
	f.is(c, putOff)
}

func TestASyncThatIsPutOffAfterItsTimeIsNoFailure(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		err := run.Put(ctx, note(1))
		<-ctx.Done()
		return errors.Join(err, worker.Postponed(time.Hour, errAsked))
	}, maxRun(100*time.Millisecond))
	f.drainsAsIs(c, `cut = 'the drive asked us to wait'`)
	f.storesAndCompletes(c)
	f.is(c, putOff)
}

func TestASyncWhoseNumberWasNeverSentIsPutOffAtOnce(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		func() {
			defer func() { _ = recover() }()
			_ = run.SendPanic(ctx)
		}()
		return worker.Postponed(time.Hour, errAsked)
	})
	f.settled(c)
	f.is(c, putOff)
}

func TestASyncThatIsPutOffWhileItsServiceStopsIsDueWhenTheWaitIsOver(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	begun := make(chan struct{})
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = 10 * time.Millisecond }, func(ctx context.Context, _ *worker.Run) error {
		close(begun)
		<-ctx.Done()
		return worker.Postponed(time.Hour, errAsked)
	})
	await(t, "the handler", begun)
	require.NoError(t, r.stop())
	f.is(c, putOff)
}

func TestWhatASyncHasSentThatIsPutOffWhileItsServiceStopsIsStoredBefore(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	begun := make(chan struct{})
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = 10 * time.Millisecond }, func(ctx context.Context, run *worker.Run) error {
		err := run.Put(ctx, note(1))
		close(begun)
		<-ctx.Done()
		return errors.Join(err, worker.Postponed(time.Hour, errAsked))
	})
	await(t, "the handler", begun)
	f.measures("worker_documents_published_total", 1)
	require.NoError(t, r.stop())
	require.Equal(t, 1, f.drainsAsIs(c, `cut = 'the drive asked us to wait'`))
}

func TestAHandlerThatWaitsForItsSourceIsSeenToWait(t *testing.T) {
	f := newFixture(t)
	waits := func(run *worker.Run) string {
		return f.one(`SELECT coalesce(wait_message || ' ' || round(extract(epoch FROM waits_until - clock_timestamp()) / 60), '-') || ' ' || xmin
			FROM open_runs WHERE id = $1`, run.Try().Run)
	}
	var before, short, long, again, longer string
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		wait := func(d time.Duration) {
			_, err := run.Waits(ctx, d, "the drive asked us to wait")
			require.NoError(t, err)
		}
		before = waits(run)
		wait(9 * time.Second)
		short = waits(run)
		wait(5 * time.Minute)
		long = waits(run)
		wait(5 * time.Minute) // another request of it
		wait(time.Minute)
		again = waits(run)
		wait(8 * time.Minute)
		longer = waits(run)
		return nil
	})
	require.Equal(t, before, short)
	require.Contains(t, long, "the drive asked us to wait 5 ")
	require.Equal(t, long, again, "nothing is written")
	require.Contains(t, longer, "the drive asked us to wait 8 ")
	f.is(c, `failure_count = 0`)
}

func TestAWaitThatWasOverBeforeItsTimePutsNoSyncOff(t *testing.T) {
	f := newFixture(t)
	written := func(run *worker.Run) string {
		return f.one(`SELECT coalesce(wait_message, '-') FROM open_runs WHERE id = $1`, run.Try().Run)
	}
	var while, after string
	c := f.triggered()
	begun := make(chan struct{})
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = 10 * time.Millisecond }, func(ctx context.Context, run *worker.Run) error {
		over, err := run.Waits(ctx, 50*time.Minute, "the drive asked us to wait")
		other, err2 := run.Waits(ctx, 5*time.Minute, "the drive asked us to wait")
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		over()
		while = written(run)
		other()
		after = written(run)
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	await(t, "the handler", begun)
	require.NoError(t, r.stop())
	require.Equal(t, []string{"the drive asked us to wait", "-"}, []string{while, after})
	f.is(c, `status = 'ACTIVE' AND due_reason = 'release' AND next_sync_at <= clock_timestamp()`)
}

// It is for people's eyes only.
func TestAWaitThatCannotBeWrittenDownEndsNoSync(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		f.exec(`DROP FUNCTION moves.waits(uuid, uuid, interval, text)`)
		_, err := run.Waits(ctx, time.Minute, "the drive asked us to wait")
		return errors.Join(err, fmt.Errorf("then: %w", worker.Postponed(time.Hour, errAsked)))
	})
	f.says("it is not written down that the sync waits for its source")
	f.is(c, `due_reason = 'wait' AND status_message = 'the drive asked us to wait'`)
}

func TestASyncDoesNotWorkWhileItWaitsForItsSource(t *testing.T) {
	f := newFixture(t)
	var before, during, stillDuring, after bool
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		before = run.ClockStands()
		over, err := run.Waits(ctx, time.Second, "the drive asked us to wait")
		during = run.ClockStands()
		other, err2 := run.Waits(ctx, time.Second, "the drive asked us to wait")
		over()
		stillDuring = run.ClockStands()
		other()
		after = run.ClockStands()
		return errors.Join(err, err2)
	})
	require.Equal(t, []bool{false, true, true, false}, []bool{before, during, stillDuring, after})
	f.is(c, `failure_count = 0`)
}

func TestASyncThatWouldWaitForItsSourceForMoreThanAnHourIsPutOff(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, c.id)
	f.work(func(ctx context.Context, run *worker.Run) error {
		_, err := run.Waits(ctx, time.Hour+time.Nanosecond, "the drive asked us to wait")
		return fmt.Errorf("list the drive: %w", err)
	})
	f.settled(c)
	f.is(c, putOff)
}

// Two documents at a time, as sdk/source reads them: one waits for credit, as semantic is behind, the other's provider asks to wait.
func TestWhatWasSentIsStoredThoughASiblingWaitedForCredit(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.workWith(withCredit, func(ctx context.Context, run *worker.Run) error {
		for i := 1; i < credit; i++ {
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
		}
		if err := run.Checkpoint(ctx, page{1}); err != nil {
			return err
		}
		group, grouped := errgroup.WithContext(ctx)
		group.Go(func() error { return run.Put(grouped, note(credit+1)) }) // waits for credit
		group.Go(func() error {
			for !run.ClockStands() { // until the other waits
				runtime.Gosched()
			}
			return fmt.Errorf("read b: %w", worker.Postponed(time.Hour, errAsked))
		})
		return group.Wait()
	}, forEver)
	if n := f.drainsAsIs(c, `cut = 'the drive asked us to wait'`); n != credit {
		t.Fatal(n)
	}
}

// The provider asks to wait while a sibling is in the middle of a large document, whose parts have numbers.
func TestWhatWasSentIsStoredThoughASiblingWasSendingALargeDocument(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	large := note(9)
	large.Chunks = slices.Repeat([]chunk.Chunk{{Text: strings.Repeat("x", worker.MaxChunkBytes)}}, 7*20)
	f.workWith(func(cfg *worker.Config) { cfg.MaxInFlight, cfg.Credit = 2, 1<<30 }, func(ctx context.Context, run *worker.Run) error {
		for i := 1; i < 9; i++ {
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
		}
		group, grouped := errgroup.WithContext(ctx)
		group.Go(func() error { return run.Put(grouped, large) })
		group.Go(func() error {
			for run.Numbers() < 10 {
				runtime.Gosched()
			}
			return fmt.Errorf("read b: %w", worker.Postponed(time.Hour, errAsked))
		})
		return group.Wait()
	}, forEver)
	f.drainsAsIs(c, `cut = 'the drive asked us to wait' AND total > 10`)
}

func TestAWaitOutlastsACleanStop(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	begun := make(chan struct{})
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = 10 * time.Millisecond }, func(ctx context.Context, run *worker.Run) error {
		over, err := run.Waits(ctx, time.Hour, "the drive asked us to wait")
		if err != nil {
			return err
		}
		defer over()
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	await(t, "the handler", begun)
	require.NoError(t, r.stop())
	f.is(c, putOff)
}

// A document without a number is missing: a checkpoint behind it would pass.
func TestNothingIsSentBehindADocumentThatCouldNotBeNumbered(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	var document, checkpoint error
	f.workWith(withCredit, func(ctx context.Context, run *worker.Run) error {
		for i := 1; i <= credit; i++ {
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
		}
		own, cancel := context.WithCancel(ctx)
		put := make(chan error)
		go func() { put <- run.Put(own, note(credit+1)) }()
		for !run.ClockStands() {
			runtime.Gosched()
		}
		cancel()
		document = <-put
		checkpoint = run.Checkpoint(ctx, page{2})
		return worker.Postponed(time.Hour, errAsked)
	}, forEver)
	require.Equal(t, credit, f.drainsAsIs(c, `cut = 'the drive asked us to wait'`))
	require.ErrorContains(t, document, "wait until more of the sync is stored")
	require.ErrorContains(t, checkpoint, document.Error()[len(`send "note/11": `):])
}
