package bench_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/testonly/tracingtest"
)

// BenchmarkTracedDispatch compares claim and publish with every run traced to the same with tracing off: a span for each
// trigger, which is where tracing weighs most.
func BenchmarkTracedDispatch(b *testing.B) {
	connectors, rounds := scaled(10_000, 500), scaled(9, 3)
	b.Run(fmt.Sprintf("connectors=%d", connectors), func(b *testing.B) {
		for b.Loop() {
			off, on := newDispatch(b, config.Tracing{}), newDispatch(b, tracingtest.New(b).Config())
			var offTimes, onTimes []float64
			for range rounds { // in turns
				offTimes = append(offTimes, off.dispatch(b, connectors))
				onTimes = append(onTimes, on.dispatch(b, connectors))
			}
			slices.Sort(offTimes)
			slices.Sort(onTimes)
			b.ReportMetric(float64(connectors)/offTimes[rounds/2], "off/s")
			b.ReportMetric(onTimes[rounds/2]/offTimes[rounds/2], "ratio-to-off")
		}
	})
}

// BenchmarkTracedSync compares the first sync of a folder with traces to the same without.
func BenchmarkTracedSync(b *testing.B) {
	files, rounds := scaled(2000, 100), scaled(5, 1)
	b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
		folder := writeFiles(b, files)
		for b.Loop() {
			off := start(b, folder)
			on := start(b, folder, "OTEL_EXPORTER_OTLP_ENDPOINT="+tracingtest.New(b).Config().OTLP.Endpoint)
			var offTimes, onTimes []float64
			for range rounds { // in turns, of a new connector each
				_, took := off.sync(off.add(folder))
				offTimes = append(offTimes, took)
				_, took = on.sync(on.add(folder))
				onTimes = append(onTimes, took)
			}
			slices.Sort(offTimes)
			slices.Sort(onTimes)
			b.ReportMetric(offTimes[rounds/2], "off-s")
			b.ReportMetric(onTimes[rounds/2]/offTimes[rounds/2], "ratio-to-off")
		}
	})
}

type dispatch struct {
	scheduler *scheduler.Scheduler
	servers   *connect.Servers
	pool      *pgxpool.Pool
}

func newDispatch(b *testing.B, to config.Tracing) dispatch {
	b.Helper()
	var cfg scheduler.Config
	require.NoError(b, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL, cfg.Tracing = testkit.Database(b, db.Up), testkit.NATS(b).URL(), to
	cfg.MaxConcurrentSyncs = 0
	process := connect.NewProcess(testkit.Logger(b))
	servers, err := connect.Open(context.Background(), cfg.Common, "scheduler", process)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, servers.Close()) })
	return dispatch{scheduler.New(cfg, servers, process), servers, servers.Pool}
}

// dispatch claims and publishes n connectors that are due, and returns the seconds that it took.
func (d dispatch) dispatch(b *testing.B, n int) float64 {
	ctx := context.Background()
	_, err := d.pool.Exec(ctx, `DELETE FROM connectors`)
	require.NoError(b, err)
	_, err = d.pool.Exec(ctx, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 'c' || i, 'web', 1 + i % 1000, 60 FROM generate_series(1, $1::int) i`, n)
	require.NoError(b, err)
	stream, err := d.servers.Stream.Stream(ctx, topology.SyncStream)
	require.NoError(b, err)
	require.NoError(b, stream.Purge(ctx))
	began := time.Now()
	require.NoError(b, d.scheduler.Tick(ctx))
	took := time.Since(began).Seconds()
	stream, err = d.servers.Stream.Stream(ctx, topology.SyncStream)
	require.NoError(b, err)
	require.Equal(b, n, int(stream.CachedInfo().State.Msgs))
	return took
}
