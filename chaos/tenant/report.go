package tenant

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/chaos/audit"
)

// quantile is the time within which the share q of them was done.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// write prints the figures and the checks, and says whether everything held.
func (l *lab) write(out io.Writer) bool {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	calm := l.stretches[0]
	say("%d ordinary connectors of %d owners, default settings; from due to completed\n\n", crowd, owners)
	say("%-44s %-5s %6s %8s %8s %8s %12s %8s %6s\n", "stretch", "type", "runs", "p50", "p99", "worst", "quiet p99 x", "waiting", "load")
	for _, s := range l.stretches {
		for _, kind := range []string{"", "file", "web"} {
			name, waiting, load := "", "", ""
			if kind == "" {
				name, waiting, load = s.name, fmt.Sprint(s.waiting), s.load
			}
			took := s.took[kind]
			say("%-44s %-5s %6d %7.2fs %7.2fs %7.2fs %12.1f %8s %6s\n", name, kind, len(took), quantile(took, 0.5).Seconds(),
				quantile(took, 0.99).Seconds(), quantile(took, 1).Seconds(), times(s, calm, kind), waiting, load)
		}
	}
	say("\n")
	worst := l.stretches[len(l.stretches)-1]
	for _, f := range worst.felt {
		say("  %-44s %s\n", f.attack, f)
	}
	kept := times(worst, calm, "") <= bound
	verdict := "kept"
	if !kept {
		verdict = "NOT KEPT"
	}
	say("\nmost memory of each program: %s\n", strings.Join(l.peaks, ", "))
	say("\nothers' p99 from due to completed: %.2fs quiet, %.2fs under all attacks, %.1f times; the bound is %.1f times: %s\n\n",
		quantile(calm.took[""], 0.99).Seconds(), quantile(worst.took[""], 0.99).Seconds(), times(worst, calm, ""), bound, verdict)
	audit.WriteTable(out, l.findings)
	ok := kept || !l.cfg.Strict
	for _, f := range l.findings {
		ok = ok && f.Violated == 0 && f.Checked > 0
	}
	return ok
}

// times is how many times the quiet p99 that of a stretch is.
func times(s, calm stretch, kind string) float64 {
	return quantile(s.took[kind], 0.99).Seconds() / max(quantile(calm.took[kind], 0.99).Seconds(), 0.001)
}
