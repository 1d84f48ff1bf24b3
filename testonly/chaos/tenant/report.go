package tenant

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/testonly/chaos/audit"
)

// quantile is the time within which the share q of the runs has done a step.
func quantile(runs []run, q float64, step func(run) time.Duration) time.Duration {
	if len(runs) == 0 {
		return 0
	}
	var took []time.Duration
	for _, r := range runs {
		took = append(took, step(r))
	}
	slices.Sort(took)
	return took[max(0, int(math.Ceil(q*float64(len(took))))-1)]
}

// steps are what a run takes its time with, and the whole of it first.
var steps = []struct {
	name string
	of   func(run) time.Duration
}{
	{"p99", func(r run) time.Duration { return r.took }},
	{"place", func(r run) time.Duration { return r.place }},
	{"worker", func(r run) time.Duration { return r.worker }},
	{"read", func(r run) time.Duration { return r.read }},
	{"store", func(r run) time.Duration { return r.store }},
}

func (s stretch) p99(kind string) time.Duration { return quantile(s.runs[kind], 0.99, steps[0].of) }

// write prints the figures and the checks, and says whether everything held.
func (l *lab) write(out io.Writer) bool {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	calm := l.stretches[0]
	say("%d ordinary connectors of %d owners, default settings; from due to completed, and the p99 of what it consists of:\n"+
		"until it has a place, until a worker has it, until it is read, until it is stored\n\n", crowd, owners)
	say("%-44s %-5s %5s %8s", "stretch", "type", "runs", "p50")
	for _, step := range steps {
		say(" %8s", step.name)
	}
	say(" %12s %8s %6s\n", "quiet p99 x", "waiting", "load")
	for _, s := range l.stretches {
		for _, kind := range []string{"", "file", "web"} {
			name, waiting, load := "", "", ""
			if kind == "" {
				name, waiting, load = s.name, fmt.Sprint(s.waiting), s.load
			}
			say("%-44s %-5s %5d %7.2fs", name, kind, len(s.runs[kind]), quantile(s.runs[kind], 0.5, steps[0].of).Seconds())
			for _, step := range steps {
				say(" %7.2fs", quantile(s.runs[kind], 0.99, step.of).Seconds())
			}
			say(" %12.1f %8s %6s\n", times(s, calm, kind), waiting, load)
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
		calm.p99("").Seconds(), worst.p99("").Seconds(), times(worst, calm, ""), bound, verdict)
	audit.WriteTable(out, l.findings)
	ok := kept || !l.cfg.Strict
	for _, f := range l.findings {
		ok = ok && f.Violated == 0 && f.Checked > 0
	}
	return ok
}

// times is how many times the quiet p99 that of a stretch is.
func times(s, calm stretch, kind string) float64 {
	return s.p99(kind).Seconds() / max(calm.p99(kind).Seconds(), 0.001)
}
