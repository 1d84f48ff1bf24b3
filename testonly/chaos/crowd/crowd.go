// Package crowd measures the real programs, with default settings, while very many connectors are in flight: how soon a lost
// worker's run is rescued while all messages of a wiped stream are published again, and what it costs that others are in flight.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/campaign"
	"github.com/echomind/sync/testonly/chaos/world"
)

// Config says how many, what to run, and where.
type Config struct {
	// Pending is how many connectors wait to be picked up when the stream is wiped, and InFlight how many another team's
	// subscriber has.
	Pending, InFlight int
	Bin, Dir          string
	Log               *slog.Logger
}

// Types of connectors: with long fetches, with quick ones, with nobody who picks them up, and another team's.
const (
	typeLong    = "long"
	typeQuick   = "quick"
	typeIdle    = "idle"
	typeForeign = "foreign"
)

const (
	// grace is the scheduler's by default.
	grace = 15 * time.Second
	// rescueTarget is that of docs/reliability.md for a worker that is killed.
	rescueTarget = 30 * time.Second
	// longs are how many syncs are being fetched when a worker is killed, quicks how many are measured at once.
	longs  = 8
	quicks = 200
)

// figure is one line of what was measured.
type figure struct {
	name   string
	took   time.Duration
	target time.Duration // 0 = none
}

// Measure prints the figures and the checks, and says whether every target was met and nothing was violated.
func Measure(ctx context.Context, out io.Writer, cfg Config) (ok bool, err error) {
	types := "SYNTHETIC_TYPES=" + typeLong + "," + typeQuick
	programs := []world.Program{
		{Name: "scheduler-1", Binary: "scheduler", Env: []string{"SCHEDULER_LEADER_ELECTION=postgres"}},
		{Name: "scheduler-2", Binary: "scheduler", Env: []string{"SCHEDULER_LEADER_ELECTION=postgres"}},
		{Name: "worker-1", Binary: "synthetic", Env: []string{types}},
		{Name: "worker-2", Binary: "synthetic", Env: []string{types}},
		{Name: "semantic-1", Binary: "semantic"},
		{Name: "semantic-2", Binary: "semantic"},
	}
	w, err := world.Open(ctx, world.Config{Bin: cfg.Bin, Dir: cfg.Dir, Programs: programs, Log: cfg.Log})
	defer func() { err = errors.Join(err, w.Close()) }()
	if err != nil {
		return false, err
	}
	l := &lab{World: w, cfg: cfg, repeats: campaign.NewRepeats()}
	heard, err := w.Stream.Conn().Subscribe(topology.SyncSubjects, l.repeats.Hear)
	if err != nil {
		return false, wrap("listen to the triggers", err)
	}
	defer func() { _ = heard.Unsubscribe() }()
	// A quarter of a million small messages may wait here while the harness is slower than the scheduler.
	if err := heard.SetPendingLimits(-1, -1); err != nil {
		return false, wrap("listen to the triggers", err)
	}
	if err := l.addTypes(ctx); err != nil {
		return false, err
	}
	w.StartPrograms()
	if err := l.play(ctx); err != nil {
		return false, err
	}
	return l.write(ctx, out)
}

// play measures everything in turn. What is in flight stays there.
func (l *lab) play(ctx context.Context) error {
	if err := l.measureQuick(ctx, "at rest"); err != nil {
		return err
	}
	if err := l.fly(ctx); err != nil {
		return err
	}
	crowded := fmt.Sprintf("with %d in flight", l.cfg.InFlight)
	l.baseline = campaign.Looked(ctx, l.World)
	if err := l.measureQuick(ctx, crowded); err != nil {
		return err
	}
	if err := l.measureRescue(ctx, crowded, nil); err != nil {
		return err
	}
	if err := l.looks(ctx, crowded); err != nil {
		return err
	}
	return l.wiped(ctx)
}

// write prints what came of it.
func (l *lab) write(ctx context.Context, out io.Writer) (ok bool, err error) {
	ok = true
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	say("%-74s %8s %8s\n", "default settings", "took", "target")
	for _, f := range l.figures {
		target := ""
		if f.target > 0 {
			target = fmt.Sprintf("%.0fs", f.target.Seconds())
			ok = ok && f.took <= f.target
		}
		say("%-74s %7.1fs %8s\n", f.name, f.took.Seconds(), target)
	}
	say("\n")
	once, err := l.publishedOnce(ctx)
	if err != nil {
		return false, err
	}
	failed, err := l.onlyTheLost(ctx)
	if err != nil {
		return false, err
	}
	findings := append([]audit.Finding{l.repeats.Finding(grace, false), once, failed}, l.notLong...)
	audit.WriteTable(out, findings)
	for _, f := range findings {
		ok = ok && f.Violated == 0 && f.Checked > 0
	}
	return ok, nil
}
