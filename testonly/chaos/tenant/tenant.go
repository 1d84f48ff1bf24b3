// Package tenant sets one hostile owner of connectors beside 50 ordinary connectors of others, in the real programs with
// default settings, and measures what the others notice of it: from due to completed, in a quiet stretch and in a hostile one.
//
//	tenant.go     the play
//	ordinary.go   the others' connectors, and what they do
//	stretch.go    a stretch of time, and what is measured in it
//	attacks.go    what the hostile owner does
//	bombs.go      content that costs more than it weighs
//	sites.go      sites that are slow on purpose
//	forgery.go    messages that lie about whose they are
//	checks.go     what must hold for the others, whatever the hostile owner does
//	whole.go      whether the others' documents are whole, and can be found
//	report.go     what is printed
package tenant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/campaign"
	"github.com/echomind/sync/testonly/chaos/world"
)

// Config says what to play, and where.
type Config struct {
	// Alone plays each attack by itself before all of them together.
	Alone bool
	// Only leaves out every attack whose name does not contain it.
	Only string
	// Strict makes the bound on the others' p99 count like every other check.
	Strict bool
	// Users is the configuration of nats-server whose users the programs and the forger are.
	Users    string
	Bin, Dir string
	Log      *slog.Logger
}

const (
	// quiet, hostile and single are how long the stretches are: before the hostile owner comes, with every attack, with one.
	quiet   = 12 * time.Second
	hostile = 20 * time.Second
	single  = 10 * time.Second
	// bound is how many times the quiet p99 the hostile one may be.
	bound = 1.5
	// grace is the scheduler's by default.
	grace = 15 * time.Second
	// restTimeout is how long everything may take to be at rest once the hostile owner is gone.
	restTimeout = 2 * time.Minute
	// places is how many connectors of a type may be in flight by default.
	places = 5
)

func programs() []world.Program {
	var all []world.Program
	for _, name := range []string{"scheduler", "chunker", "connector", "semantic"} {
		for _, no := range []string{"-1", "-2"} {
			p := world.Program{Name: name + no, Binary: name}
			if name == "scheduler" {
				p.Env = []string{"SCHEDULER_LEADER_ELECTION=postgres"}
			}
			all = append(all, p)
		}
	}
	return all
}

// lab is a world under measurement.
type lab struct {
	*world.World
	cfg     Config
	others  []*ordinary
	owner   *owner
	repeats *campaign.Repeats
	// pids are the programs' processes at the beginning.
	pids      map[string]int
	stretches []stretch
	findings  []audit.Finding
	// peaks are the programs' memory at its most.
	peaks []string
}

// Measure plays it, prints the figures and the checks, and says whether everything held.
func Measure(ctx context.Context, out io.Writer, cfg Config) (ok bool, err error) {
	w, err := world.Open(ctx, world.Config{Bin: cfg.Bin, Dir: cfg.Dir, Programs: programs(), Users: cfg.Users, Log: cfg.Log})
	defer func() { err = errors.Join(err, w.Close()) }()
	if err != nil {
		return false, err
	}
	if err := audit.Install(ctx, w.Pool); err != nil {
		return false, wrap("install the audit", err)
	}
	l := &lab{World: w, cfg: cfg, repeats: campaign.NewRepeats(), pids: map[string]int{}}
	heard, err := w.Stream.Conn().Subscribe(topology.SyncSubjects, l.repeats.Hear)
	if err != nil {
		return false, wrap("listen to the triggers", err)
	}
	defer func() { _ = heard.Unsubscribe() }()
	if l.owner, err = newOwner(ctx, w); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.owner.close()) }()
	if err := l.addOrdinary(ctx); err != nil {
		return false, err
	}
	w.StartPrograms()
	if err := l.play(ctx); err != nil {
		return false, err
	}
	if err := l.check(ctx); err != nil {
		return false, err
	}
	return l.write(out), nil
}

func (l *lab) play(ctx context.Context) error {
	if err := l.restOfOthers(ctx); err != nil {
		return err
	}
	for _, p := range l.Processes {
		l.pids[p.Name] = p.PID()
	}
	if err := l.stretch(ctx, "quiet", quiet, nil); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(attacks(), func(a attack) bool { return !strings.Contains(a.name, l.cfg.Only) })
	if l.cfg.Alone {
		for _, a := range chosen {
			if err := l.stretch(ctx, a.name, single, []attack{a}); err != nil {
				return err
			}
		}
	}
	return l.stretch(ctx, "all attacks", hostile, chosen)
}

// until polls a question until its answer is true.
func (l *lab) until(ctx context.Context, what, query string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, restTimeout, fmt.Errorf("waited for %s in vain for %s", what, restTimeout))
	defer cancel()
	for {
		var yes bool
		err := l.Pool.QueryRow(ctx, query, args...).Scan(&yes)
		if yes && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
