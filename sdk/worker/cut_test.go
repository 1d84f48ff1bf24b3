package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/worker"
)

func maxRun(d time.Duration) func(*worker.Worker) {
	return func(w *worker.Worker) { w.SetMaxRun(d) }
}

// isCut says that a connector's run drains because its worker has cut it, and that the stream has what it sent, and no sync
// completed; it returns how many messages these are.
func (f *fixture) isCut(c trip) int {
	f.t.Helper()
	return f.drainsAsIs(c, `cut LIKE '%the sync took longer than it may' AND waits_until IS NULL`)
}

// drainsAsIs is isCut, for an open run that meets a condition.
func (f *fixture) drainsAsIs(c trip, condition string) int {
	f.t.Helper()
	f.becomes(c, `status = 'SYNCING' AND drain_seq IS NOT NULL`)
	f.is(c, `worker_id IS NULL AND failure_count = 0 AND fetched_at IS NOT NULL AND (SELECT NOT whole AND `+condition+` FROM open_runs)`)
	sent := f.sent(c)
	require.NotContains(f.t, sent, int64(0))
	for no := range int64(len(sent)) {
		require.Contains(f.t, sent, no+1)
	}
	require.Equal(f.t, fmt.Sprint(len(sent)), f.one(`SELECT total::text FROM open_runs`))
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(f.t, err)
	require.Equal(f.t, fmt.Sprint(stream.CachedInfo().State.LastSeq), f.one(`SELECT drain_seq::text FROM open_runs`))
	return len(sent)
}

func TestASyncThatTakesTooLongAndHasSentSomethingIsNotFailedBeforeItIsStored(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		err := errors.Join(run.Put(ctx, note(1)), run.Checkpoint(ctx, page{1}), run.Put(ctx, note(2)))
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	}, maxRun(time.Second))
	require.Equal(t, 3, f.isCut(c))
}

func TestASyncThatFailsAndKeepsWhatItHasSentIsNotFailedBeforeItIsStored(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	refused := errors.New("nothing was deleted")
	f.work(func(ctx context.Context, run *worker.Run) error {
		err := errors.Join(run.Put(ctx, note(1)), run.Checkpoint(ctx, page{1}))
		return errors.Join(err, worker.KeepSent(refused))
	})
	require.Equal(t, 2, f.drainsAsIs(c, `cut = 'nothing was deleted' AND cut_kind = 'transient' AND waits_until IS NULL`))
}

func TestASyncThatHasSentNothingFailsAtOnceWhateverItKeeps(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(context.Context, *worker.Run) error { return worker.KeepSent(errors.New("nothing was deleted")) })
	f.becomes(c, `status = 'ERROR' AND status_message = 'nothing was deleted' AND failure_count = 1`)
}

func TestWhatHasANumberWhenASyncTakesTooLongIsSent(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	// With credit for everything: to wait for it is no work, and the run would never take too long.
	f.workWith(func(cfg *worker.Config) { cfg.MaxInFlight, cfg.Credit = 1, 1<<30 }, func(ctx context.Context, run *worker.Run) error {
		for i := 1; ; i++ {
			if err := run.Put(ctx, note(i)); err != nil {
				return err
			}
		}
	}, maxRun(200*time.Millisecond))
	require.NotZero(t, f.isCut(c))
}

func TestAHandlerThatReturnsInOrderAfterItsTimeIsCutToo(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		err := run.Put(ctx, note(1))
		<-ctx.Done()
		return err
	}, maxRun(time.Second))
	require.Equal(t, 1, f.isCut(c))
}

func TestASyncWhoseNumberWasNeverSentFailsWhenItTakesTooLong(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		func() {
			defer func() { _ = recover() }()
			_ = run.SendPanic(ctx)
		}()
		<-ctx.Done()
		return ctx.Err()
	}, maxRun(500*time.Millisecond))
	f.becomes(c, `status = 'ERROR' AND failure_count = 1 AND reason = 'took too long'`)
}

func TestARunThatIsLostWhileItIsCutIsDropped(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error {
		err := run.Put(ctx, note(1))
		<-ctx.Done()
		f.exec(`SELECT moves.disable($1)`, c.id)
		return errors.Join(err, ctx.Err())
	}, maxRun(time.Second))
	f.becomes(c, `status = 'DISABLED'`)
	f.empties(topology.SyncStream)
	require.Equal(t, uuid.Nil.String(), f.one(`SELECT coalesce(max(id::text), $1) FROM open_runs`, uuid.Nil.String()))
}
