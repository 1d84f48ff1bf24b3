package worker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
)

const isCancelled = `status = 'ACTIVE' AND verdict = 'superseded' AND reason = 'cancelled' AND failure_count = 0 AND next_sync_at > clock_timestamp()`

func TestAHandlersContextEndsWhereItsRunIsCancelled(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	begun, ended := make(chan *worker.Run, 1), make(chan error, 1)
	r := f.workWith(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 }, func(ctx context.Context, run *worker.Run) error {
		if run.Request().ConnectorId != c.id {
			return nil
		}
		if err := run.Put(ctx, note(1)); err != nil {
			return err
		}
		begun <- run
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return errors.New("what it says now is nobody's failure")
	})
	await(t, "the handler", begun)
	require.NoError(t, lifecycle.New(f.pool).Cancel(ctx, c.session, "cancelled by ada"))
	require.ErrorIs(t, await(t, "the end of its context", ended), lifecycle.ErrFenced)
	next := f.triggered() // the slot is free again
	f.settled(next)
	require.NoError(t, r.stop())
	f.is(c, isCancelled)
}

func TestTheMessageOfACancelledRunIsOldNews(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	require.NoError(t, lifecycle.New(f.pool).Cancel(ctx, c.session, "cancelled by ada"))
	f.publish(c)
	handle, begun, _ := blocked()
	f.work(handle)
	f.empties(topology.SyncStream)
	require.Empty(t, begun)
	f.is(c, isCancelled)
}
