package worker_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/worker"
)

type page struct {
	Page int `json:"page"`
}

// isCut says that a connector's run drains because its worker has cut it, and that the stream has what it sent, and no sync
// completed; it returns how many messages these are.
func (f *fixture) isCut(c trip) int {
	f.t.Helper()
	return f.drainsAsIs(c, `cut LIKE '%the sync took longer than it may' AND waits_until IS NULL`)
}

// jobs makes file a type of jobs, and begins a worker of it, that beats each second.
func jobs[D any](f *fixture, job worker.Job[D], tune ...func(*worker.Worker)) *running {
	f.t.Helper()
	f.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'file'`)
	return jobsOf(f, job, tune...)
}

// ledger is what the ledger has of a run that has ended.
func (f *fixture) ledger(c trip) string {
	f.t.Helper()
	return f.one(`SELECT concat_ws(' | ', status, reason, error_message, result::text, warnings::text, progress_done, progress_total, progress_text)
		FROM runs WHERE id = $1`, c.session)
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

func maxRun(d time.Duration) func(*worker.Worker) {
	return func(w *worker.Worker) { w.SetMaxRun(d) }
}

func jobsOf[D any](f *fixture, job worker.Job[D], tune ...func(*worker.Worker)) *running {
	return f.running(f.newWorkerBy(func(cfg *worker.Config) { cfg.LeaseSeconds = 3 },
		func(cfg worker.Config, on worker.Servers, process worker.Process) (*worker.Worker, error) {
			return worker.NewJob("file", job, cfg, on, process)
		}), tune...)
}
