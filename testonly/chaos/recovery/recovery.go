// Package recovery measures how long the system takes to be back after a fault, with default settings and against the
// real programs. Postgres's clock, or the harness's, is read at both ends of each measurement.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/echomind/sync/testonly/chaos/world"
)

// Config says what to run and where.
type Config struct {
	Bin, Dir string
	Log      *slog.Logger
}

// poll is how exact a measurement is.
const poll = 20 * time.Millisecond

// measurement is one row of the table.
type measurement struct {
	name   string
	target time.Duration
	// times is how often it is repeated.
	times   int
	measure func(context.Context, *lab) (time.Duration, error)
}

var measurements = []measurement{
	{"worker killed mid-fetch -> the same sync running again", 30 * time.Second, 3, workerKilled},
	{"leading scheduler killed -> next dispatch", 10 * time.Second, 5, leaderKilled},
	{"message lost -> published again", 60 * time.Second, 3, messageLost},
	{"stream storage wiped under 5,000 pending -> all published again", 90 * time.Second, 1, storageWiped},
	{"NATS back -> first dispatch", 5 * time.Second, 5, natsBack},
}

// Measure prints the table and says whether every target was met.
func Measure(ctx context.Context, out io.Writer, cfg Config) (ok bool, err error) {
	programs := []world.Program{
		{Name: "scheduler-1", Binary: "scheduler", Env: []string{"SCHEDULER_LEADER_ELECTION=postgres"}},
		{Name: "scheduler-2", Binary: "scheduler", Env: []string{"SCHEDULER_LEADER_ELECTION=postgres"}},
		{Name: "worker-1", Binary: "synthetic", Env: []string{"SYNTHETIC_TYPES=" + typeLong + "," + typeQuick}},
		{Name: "worker-2", Binary: "synthetic", Env: []string{"SYNTHETIC_TYPES=" + typeLong + "," + typeQuick}},
		{Name: "semantic-1", Binary: "semantic"},
		{Name: "semantic-2", Binary: "semantic"},
	}
	w, err := world.Open(ctx, world.Config{Bin: cfg.Bin, Dir: cfg.Dir, Programs: programs, Log: cfg.Log})
	defer func() { err = errors.Join(err, w.Close()) }()
	if err != nil {
		return false, err
	}
	l := &lab{World: w}
	if err := l.addTypes(ctx); err != nil {
		return false, err
	}
	w.StartPrograms()
	if err := l.awaitLeader(ctx); err != nil {
		return false, err
	}
	ok = true
	_, _ = fmt.Fprintf(out, "%-66s %8s %8s %8s %4s\n", "recovery, default settings", "median", "worst", "target", "n")
	for _, m := range measurements {
		var took []time.Duration
		for range m.times {
			t, err := m.measure(ctx, l)
			if err != nil {
				return false, fmt.Errorf("%s: %w", m.name, err)
			}
			took = append(took, t)
		}
		slices.Sort(took)
		worst := took[len(took)-1]
		ok = ok && worst <= m.target
		_, _ = fmt.Fprintf(out, "%-66s %7.1fs %7.1fs %7.0fs %4d\n", m.name,
			took[len(took)/2].Seconds(), worst.Seconds(), m.target.Seconds(), len(took))
	}
	return ok, nil
}
