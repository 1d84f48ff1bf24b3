package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

// worker is one of a type, with a slot.
func (f *fixture) worker(connectorType string, handle worker.Handler) *worker.Worker {
	f.t.Helper()
	return f.newWorkerBy(func(*worker.Config) {}, func(cfg worker.Config, on worker.Servers, process worker.Process) (*worker.Worker, error) {
		return worker.New(connectorType, handle, cfg, on, process)
	})
}

func (f *fixture) runAll(workers ...*worker.Worker) (stop context.CancelFunc, ended chan error) {
	f.t.Helper()
	working, stop := context.WithCancel(ctx)
	ended = make(chan error, 1)
	go func() { ended <- worker.RunAll(working, workers...) }()
	f.t.Cleanup(stop)
	return stop, ended
}

func TestWorkersOfSeveralTypesHaveOneHeartbeat(t *testing.T) {
	f := newFixture(t)
	handle, begun, goOn := blocked()
	stop, ended := f.runAll(f.worker("web", handle), f.worker("file", handle), f.worker("file", handle))
	first, second := f.triggered(), f.triggered()
	await(t, "a handler", begun)
	await(t, "the other handler", begun)
	require.Equal(t, "1", f.one(`SELECT count(*)::text FROM workers`))
	require.Equal(t, "1 2", f.one(`SELECT count(DISTINCT worker_id) || ' ' || count(*) FROM open_runs`))
	close(goOn)
	f.settled(first)
	f.settled(second)
	stop()
	require.NoError(t, await(t, "their end", ended))
}

func TestAWorkerThatIsStuckEndsThoseWhoseHeartbeatItShares(t *testing.T) {
	f := newFixture(t)
	hangs, begun := make(chan struct{}), make(chan struct{}, 1)
	t.Cleanup(func() { close(hangs) })
	stuck := f.worker("file", func(context.Context, *worker.Run) error { begun <- struct{}{}; <-hangs; return nil })
	stuck.SetStuckAfter(100 * time.Millisecond)
	_, ended := f.runAll(f.worker("web", func(context.Context, *worker.Run) error { return nil }), stuck)
	f.triggered()
	await(t, "the handler", begun)
	f.exec(`SELECT moves.disable(id) FROM connectors`)
	require.ErrorIs(t, await(t, "their end", ended), worker.ErrStuck)
}

func TestWorkersThatAreToldToStopBeforeTheirFirstHeartbeatEnd(t *testing.T) {
	f := newFixture(t)
	none := func(context.Context, *worker.Run) error { return nil }
	stopped, stop := context.WithCancel(ctx)
	stop()
	require.NoError(t, worker.RunAll(stopped, f.worker("file", none), f.worker("web", none)))
	require.Error(t, worker.RunAll(ctx), "there is nobody to run")
}
