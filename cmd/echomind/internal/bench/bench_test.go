package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/services/scheduler"
)

func scaled(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// BenchmarkSync measures a folder of Markdown files of 1-4 KB: the first sync, one with nothing changed, one with one
// changed file, and the peak memory of the process.
func BenchmarkSync(b *testing.B) {
	files := scaled(10_000, 300)
	b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
		folder := writeFiles(b, files)
		for b.Loop() {
			p := start(b, folder)
			id := p.add(folder)
			verdict, first, _ := p.sync(id)
			require.Equal(b, "completed", verdict)
			verdict, unchanged, _ := p.sync(id)
			require.Equal(b, "skipped", verdict)
			require.NoError(b, os.WriteFile(filepath.Join(folder, "0", "0.md"), []byte("# Changed\n\nOne file.\n"), 0o600))
			verdict, one, _ := p.sync(id)
			require.Equal(b, "completed", verdict)
			b.ReportMetric(first, "first-s")
			b.ReportMetric(float64(files)/first, "files/s")
			b.ReportMetric(unchanged, "unchanged-s")
			b.ReportMetric(one, "one-changed-s")
			b.ReportMetric(p.peakRSS(), "peak-RSS-MB")
		}
	})
}

// writeFiles makes Markdown files of 1-4 KB of words from a vocabulary of 20,000.
func writeFiles(b *testing.B, n int) string {
	b.Helper()
	folder := b.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		var text strings.Builder
		fmt.Fprintf(&text, "# Document %d\n\n", i)
		for size := 1000 + random.IntN(3000); text.Len() < size; {
			for range 12 {
				fmt.Fprintf(&text, "word%d ", random.IntN(20_000))
			}
			text.WriteString(".\n")
			if random.IntN(6) == 0 {
				text.WriteString("\n")
			}
			if random.IntN(25) == 0 {
				fmt.Fprintf(&text, "\n## Section %d\n\n", random.IntN(1000))
			}
		}
		sub := filepath.Join(folder, fmt.Sprint(i%50))
		require.NoError(b, os.MkdirAll(sub, 0o700))
		require.NoError(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("%d.md", i)), []byte(text.String()), 0o600))
	}
	return folder
}

// BenchmarkTriggerToPickedUp measures, on an idle system, the time from a trigger to the pick-up of its message.
func BenchmarkTriggerToPickedUp(b *testing.B) {
	triggers := scaled(200, 20)
	b.Run(fmt.Sprintf("triggers=%d", triggers), func(b *testing.B) {
		folder := b.TempDir()
		for b.Loop() {
			p := start(b, folder)
			id := p.add(folder)
			times := make([]float64, triggers)
			for i := range times {
				_, _, times[i] = p.sync(id)
			}
			slices.Sort(times)
			b.ReportMetric(1000*times[triggers/2], "p50-ms")
			b.ReportMetric(1000*times[triggers*99/100], "p99-ms")
		}
	})
}

// BenchmarkTickWithNothingDue compares one tick over many connectors with one over a thousand.
func BenchmarkTickWithNothingDue(b *testing.B) {
	many, ticks := scaled(1_000_000, 20_000), scaled(500, 50)
	b.Run(fmt.Sprintf("connectors=%d", many), func(b *testing.B) {
		for b.Loop() {
			few, lots := newTicker(b, 1000), newTicker(b, many)
			// In turns, so that whatever else the machine does burdens both alike.
			var fewTimes, lotsTimes []float64
			for range ticks {
				fewTimes = append(fewTimes, few.tick(b))
				lotsTimes = append(lotsTimes, lots.tick(b))
			}
			slices.Sort(fewTimes)
			slices.Sort(lotsTimes)
			median := lotsTimes[ticks/2]
			b.ReportMetric(1e6*median, "tick-µs")
			b.ReportMetric(median/fewTimes[ticks/2], "ratio-to-1000")
		}
	})
}

type ticker struct{ scheduler *scheduler.Scheduler }

func newTicker(b *testing.B, connectors int) ticker {
	b.Helper()
	ctx := context.Background()
	url := testkit.Database(b, db.Up)
	conn, err := pgx.Connect(ctx, url)
	require.NoError(b, err)
	defer func() { require.NoError(b, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at)
		SELECT 'c' || i, (ARRAY['web','file','onedrive','google_drive','teams'])[1 + i % 5], 1 + i % 5000, 1440, clock_timestamp()
		FROM generate_series(1, $1) i`, connectors)
	require.NoError(b, err)
	_, err = conn.Exec(ctx, `ANALYZE connectors`)
	require.NoError(b, err)

	var cfg scheduler.Config
	require.NoError(b, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL = url, testkit.NATS(b).URL()
	process := connect.NewProcess(testkit.Logger(b))
	servers, err := connect.Open(ctx, cfg.Common, "scheduler", process)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, servers.Close()) })
	t := ticker{scheduler.New(cfg, servers, process)}
	for range 20 {
		t.tick(b) // plans and connections are made once
	}
	return t
}

func (t ticker) tick(b *testing.B) float64 {
	began := time.Now()
	require.NoError(b, t.scheduler.Tick(context.Background()))
	return time.Since(began).Seconds()
}
