package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

// noCredit is so much that no run ever waits for it.
const noCredit = 1 << 30

// BenchmarkDocumentsBehindALargeRun measures a run of many documents, behind which others with ten each are triggered once a tenth of
// it is stored; with durable servers and one worker of the default number of slots. In turns with the default credit and without
// any bound: how many documents of the large run are stored a second, and how long each of the others takes until it is complete.
func BenchmarkDocumentsBehindALargeRun(b *testing.B) {
	documents, small := scaled(100_000, 1000), scaled(20, 3)
	b.Run(fmt.Sprintf("documents=%d/others=%d", documents, small), func(b *testing.B) {
		var unbound, bound float64 // seconds
		var slow, quick []float64
		for b.Loop() {
			large, others := behind(b, noCredit, documents, small)
			unbound, slow = unbound+large, append(slow, others...)
			large, others = behind(b, worker.DefaultConfig().Credit, documents, small)
			bound, quick = bound+large, append(quick, others...)
		}
		slices.Sort(quick)
		b.ReportMetric(float64(b.N*documents)/unbound, "unbound-docs/s")
		b.ReportMetric(float64(b.N*documents)/bound, "docs/s")
		b.ReportMetric(unbound/bound, "large-ratio")
		b.ReportMetric(slices.Max(slow), "unbound-behind-max-s")
		b.ReportMetric(quick[len(quick)/2], "behind-p50-s")
		b.ReportMetric(quick[len(quick)-1], "behind-max-s")
	})
}

// behind returns how many seconds the large run took, and each of the others.
func behind(b *testing.B, credit, documents, others int) (large float64, took []float64) {
	b.Helper()
	ctx := context.Background()
	p := start(b, b.TempDir(), "SCHEDULER_CHECK_INTERVAL_SECONDS=1")
	tuning := worker.DefaultConfig()
	tuning.Credit = credit
	p.serve("notes", tuning, writeNotes)
	p.notes("large", 1, documents)
	testkit.Eventually(b, 10*time.Minute, func() error {
		var stored int
		<-time.After(100 * time.Millisecond) // who asks more often slows down what is measured
		err := p.pool.QueryRow(ctx, `SELECT coalesce(max(stored), 0) FROM open_runs WHERE type = 'notes'`).Scan(&stored)
		if err == nil && stored < documents/10 {
			err = fmt.Errorf("%d of %d are stored", stored, documents)
		}
		return err
	})
	p.notes("other", others, 10)
	testkit.Eventually(b, 10*time.Minute, func() error {
		<-time.After(500 * time.Millisecond)
		err := p.pool.QueryRow(ctx, `SELECT coalesce(extract(epoch FROM max(last_sync_at - created_at) FILTER (WHERE name = 'large')), 0)::float8,
			coalesce(array_agg(extract(epoch FROM last_sync_at - created_at)::float8) FILTER (WHERE name = 'other' AND last_sync_at IS NOT NULL), '{}')
			FROM connectors WHERE type = 'notes'`).Scan(&large, &took)
		if err == nil && (large == 0 || len(took) < others) {
			err = fmt.Errorf("the large run is through: %v, and %d of %d others", large > 0, len(took), others)
		}
		return err
	})
	return large, took
}

// serve subscribes to a type, beside the program.
func (p *program) serve(connectorType string, tuning worker.Config, handle worker.Handler) {
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
	w, err := worker.New(connectorType, handle, tuning, servers, process)
	require.NoError(p.b, err)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	p.b.Cleanup(func() {
		stop()
		require.NoError(p.b, <-done)
		require.NoError(p.b, servers.Close())
	})
}

// notes makes n connectors of so many documents that are due at once.
func (p *program) notes(name string, n, documents int) {
	p.b.Helper()
	_, err := p.pool.Exec(context.Background(), `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, config)
		SELECT $1, 'notes', i, 0, jsonb_build_object('documents', $3::int) FROM generate_series(1, $2) i`, name, n, documents)
	require.NoError(p.b, err)
}

// writeNotes is a handler whose source takes no time.
func writeNotes(ctx context.Context, run *worker.Run) error {
	var config struct {
		Documents int `json:"documents"`
	}
	if err := run.Config(&config); err != nil {
		return err
	}
	for i := range config.Documents {
		text := strings.Repeat(fmt.Sprintf("note %d of many ", i), 20)
		err := run.Put(ctx, worker.Document{SourceID: fmt.Sprintf("note/%d", i), VersionToken: "v1", ContentHash: fmt.Sprintf("%x", i),
			Chunks: []chunk.Chunk{{Text: text, End: int64(len(text))}}})
		if err != nil {
			return err
		}
	}
	return nil
}
