package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/sdk/worker"
)

// BenchmarkCycle measures whole syncs of connectors that have nothing to store, all due at once: due, PENDING, SYNCING,
// ACTIVE, with durable servers, one worker process of 32 slots, and a type without a cap and with one. in-flight-ratio is the
// same beside many runs that are in flight and stand still, against without them.
func BenchmarkCycle(b *testing.B) {
	connectors, standing := scaled(10_000, 300), scaled(100_000, 2000)
	for _, limit := range []int{0, 64} {
		b.Run(fmt.Sprintf("connectors=%d/cap=%d", connectors, limit), func(b *testing.B) {
			for b.Loop() {
				p := start(b, b.TempDir(), fmt.Sprintf("SCHEDULER_MAX_CONCURRENT_SYNCS=%d", limit), "SCHEDULER_CHECK_INTERVAL_SECONDS=1")
				p.serve("idle", 32)
				alone := p.cycles("idle", connectors)
				b.ReportMetric(alone, "syncs/s")
				p.standStill(standing)
				b.ReportMetric(p.cycles("idle", connectors)/alone, "in-flight-ratio")
			}
		})
	}
}

// serve subscribes to a type, beside the program, with a handler that finds nothing to do.
func (p *program) serve(connectorType string, slots int) {
	p.b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	_, err := p.pool.Exec(ctx, `INSERT INTO connector_types (name) VALUES ($1) ON CONFLICT DO NOTHING`, connectorType)
	require.NoError(p.b, err)
	var cfg config.Common
	require.NoError(p.b, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL, cfg.DatabaseMaxConns = p.info.DatabaseURL, p.info.NATSURL, 20
	process := connect.NewProcess(testkit.Logger(p.b))
	servers, err := connect.Open(ctx, cfg, "worker", process)
	require.NoError(p.b, err)
	tuning := worker.DefaultConfig()
	tuning.Slots = slots
	w, err := worker.New(connectorType, func(context.Context, *worker.Run) error { return nil }, tuning, servers, process)
	require.NoError(p.b, err)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	p.b.Cleanup(func() {
		stop()
		require.NoError(p.b, <-done)
		require.NoError(p.b, servers.Close())
	})
}

// cycles makes n connectors due at once and returns how many were synced a second, by Postgres's clock.
func (p *program) cycles(connectorType string, n int) float64 {
	p.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var since time.Time
	require.NoError(p.b, p.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&since))
	_, err := p.pool.Exec(ctx, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 'c' || i, $1, 1 + i % 1000, 0 FROM generate_series(1, $2) i`, connectorType, n)
	require.NoError(p.b, err)
	var took float64
	testkit.Eventually(p.b, 10*time.Minute, func() error {
		var synced int
		<-time.After(200 * time.Millisecond) // who asks more often slows down what is measured
		err := p.pool.QueryRow(ctx, `SELECT count(*), coalesce(extract(epoch FROM max(last_sync_at) - $2), 0)::float8
			FROM connectors WHERE type = $1 AND last_sync_at >= $2`, connectorType, since).Scan(&synced, &took)
		if err == nil && synced < n {
			err = fmt.Errorf("%d of %d are synced", synced, n)
		}
		return err
	})
	return float64(n) / took
}

// standStill puts n connectors of a type that nobody serves in flight.
func (p *program) standStill(n int) {
	p.b.Helper()
	ctx := context.Background()
	_, err := p.pool.Exec(ctx, `INSERT INTO connector_types (name, max_concurrent_syncs) VALUES ('nobodys', 0) ON CONFLICT DO NOTHING`)
	require.NoError(p.b, err)
	_, err = p.pool.Exec(ctx, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 's' || i, 'nobodys', 1 + i % 1000, 0 FROM generate_series(1, $1) i`, n)
	require.NoError(p.b, err)
	testkit.Eventually(p.b, 10*time.Minute, func() error {
		var waiting int
		err := p.pool.QueryRow(ctx, `SELECT count(*) FROM open_runs WHERE type = 'nobodys'`).Scan(&waiting)
		if err == nil && waiting < n {
			err = fmt.Errorf("%d of %d are in flight", waiting, n)
		}
		return err
	})
}
