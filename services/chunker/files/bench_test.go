package files_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/internal/extract"
)

type noop struct {
	*workertest.Store
	known map[string]worker.Known
	n     atomic.Int64
}

func (n *noop) Known(context.Context) (map[string]worker.Known, error) { return n.known, nil }
func (n *noop) Put(context.Context, worker.Document) error             { n.n.Add(1); return nil }
func (n *noop) Touch(context.Context, worker.Document) error           { n.n.Add(1); return nil }
func (n *noop) Delete(context.Context, string) error                   { n.n.Add(1); return nil }
func (n *noop) Unchanged(int)                                          {}

func BenchmarkSync(b *testing.B) {
	count := 10_000
	if testing.Short() {
		count = 300
	}
	dir := b.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the sync of a connector reads every file once and stores what has changed with its version token")
	for i := range count {
		var text strings.Builder
		fmt.Fprintf(&text, "# Page %d\n\n", i)
		for size := 1000 + random.IntN(3000); text.Len() < size; {
			switch n := random.IntN(40); n {
			case 0:
				text.WriteString("\n\n## Heading of a part\n\n")
			case 1:
				text.WriteString(".\n\n- item **bold**\n- item `code`\n\n")
			case 2:
				text.WriteString("[link](http://example.com/a), ")
			default:
				text.WriteString(words[random.IntN(len(words))] + " ")
			}
		}
		write(b, dir, fmt.Sprintf("%02d/%04d.md", i%50, i), text.String(), time.Hour)
	}
	full := newStore()
	run(b, dir, full)
	known, err := full.Known(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	sync := func(b *testing.B, reader extract.Reader, known map[string]worker.Known) time.Duration {
		began := time.Now()
		_, err := files.Sync(b.Context(), config(dir), files.Options{Reader: reader, Roots: files.OpenRoots([]string{dir})}, &noop{Store: workertest.New(), known: known})
		if err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	b.Run(fmt.Sprintf("files=%d/sync=unchanged", count), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sync(b, extract.InProcess{}, known)
		}
		b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "files/s")
	})
	b.Run(fmt.Sprintf("files=%d/sync=first", count), func(b *testing.B) {
		confined := confined(b)
		var here, there []float64
		for b.Loop() {
			for range 5 { // in turns, so that other work on the machine burdens both alike
				here = append(here, sync(b, extract.InProcess{}, nil).Seconds())
				there = append(there, sync(b, confined, nil).Seconds())
			}
		}
		slices.Sort(here)
		slices.Sort(there)
		median := len(here) / 2
		b.ReportMetric(float64(count)/there[median], "files/s")
		b.ReportMetric(here[median]/there[median], "ratio-to-in-process")
	})
}

// confined reads files in child processes, as services do.
func confined(t testing.TB) extract.Reader {
	pool, err := confine.New(t.Context(), 4, confine.Limits{MemoryMB: 256}, slog.New(slog.DiscardHandler),
		confine.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return extract.In(pool.Share("somebody"))
}
