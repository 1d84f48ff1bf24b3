//go:build !race

package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/worker"
)

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
