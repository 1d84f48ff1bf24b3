package bench_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
			verdict, first := p.sync(id)
			require.Equal(b, "completed", verdict)
			verdict, unchanged := p.sync(id)
			require.Equal(b, "skipped", verdict)
			require.NoError(b, os.WriteFile(filepath.Join(folder, "0", "0.md"), []byte("# Changed\n\nOne file.\n"), 0o600))
			verdict, one := p.sync(id)
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
