// Package fault is what the harness breaks. Each fault lasts as long as it says, then mends what it broke; several at
// once are another fault.
//
//	processes.go   killed, killed at named lines, frozen, stopped cleanly, multiplied, with a wrong clock
//	servers.go     nats-server, Postgres and Qdrant killed, purged, wiped, exhausted, locked, frozen
//	cluster.go     three nats-servers that lose their leader, or their majority
//	special.go     clocks that step; a failover of Postgres
//	network.go     late, reset in the middle of a message, silent both ways and one way
//	vanish.go      machines that hold a transaction and are heard of no more
//	messages.go    repeated, out of order, not to be read, a day late
//	forged.go      messages that lie about whose they are, and when they were said
//	people.go      users who change and delete what is at work
//	foreign.go     another team's subscriber, and its mistakes
package fault

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/echomind/sync/testonly/chaos/world"
)

// Fault is one thing that goes wrong.
type Fault struct {
	// Name is how the fault matrix calls it.
	Name string
	// Loses says what the fault may cost, so that the audit knows what is excused.
	Loses Loss
	// Long says that it outlasts every timeout, or costs dispatched messages, which are looked for after a grace.
	Long bool
	// Inject breaks something, waits, and mends it. It returns an error where it could not.
	Inject func(context.Context, *Field) error
}

// Loss is what a fault takes away for good. Everything else is a wait.
type Loss struct {
	// Workers die: their runs may end as "worker lost".
	Workers bool
	// Messages vanish: runs may end as "lost in transit".
	Messages bool
	// Clock: leases do not compare with what happened when.
	Clock bool
	// Forged messages name a try that is under way, and lie about the rest: its run may fail.
	Forged bool
}

// String is what the fault matrix says.
func (l Loss) String() string {
	switch {
	case l.Workers && l.Messages:
		return "runs that end as *worker lost* or *lost in transit*"
	case l.Workers:
		return "runs that end as *worker lost*"
	case l.Forged:
		return "runs for which a message was forged by somebody who knows their try"
	case l.Messages:
		return "runs that end as *lost in transit*"
	}
	return "time"
}

// Field is where a fault happens.
type Field struct {
	World *world.World
	// Rand is the fault's own.
	Rand *rand.Rand
	// Long is how long a fault lasts that must outlast every timeout.
	Long time.Duration
	// Tape holds messages that were published before.
	Tape *Tape
	// Subscriber is another team's.
	Subscriber *Subscriber
	// Extra starts one more program for as long as the context lasts.
	Extra func(ctx context.Context, program world.Program) error
	Log   *slog.Logger
}

// short is how long a fault lasts that only has to be noticed.
func (f *Field) short() time.Duration {
	return time.Second + time.Duration(f.Rand.Int64N(int64(4*time.Second)))
}

// one picks a process whose name begins with one of the prefixes.
func (f *Field) one(prefixes ...string) *world.Process {
	found := f.World.Named(prefixes...)
	return found[f.Rand.IntN(len(found))]
}

// All are the faults of the matrix.
func All() []Fault {
	return slices.Concat(processes(), vanishing(), servers(), network(), messages(), forged(), people(), foreign())
}

// Named are those whose name contains a part, or one of several between bars.
func Named(parts string) []Fault { return named(All(), parts) }

func named(all []Fault, parts string) []Fault {
	var some []Fault
	for _, f := range all {
		if slices.ContainsFunc(strings.Split(parts, "|"), func(part string) bool { return strings.Contains(f.Name, part) }) {
			some = append(some, f)
		}
	}
	return some
}

// Injected is one fault that happened.
type Injected struct {
	At   time.Duration
	Name string
	Took time.Duration
	Err  error
}

// Planned is when a fault begins.
type Planned struct {
	At    time.Duration
	Fault Fault
}

// Schedule is when each fault begins, in order.
type Schedule []Planned

// Each plans every fault once, in random order, evenly over the window; they overlap. Long ones begin in its first half,
// so that all of them are over soon after it.
func Each(faults []Fault, window time.Duration, rng *rand.Rand) Schedule {
	var long, brief []Fault
	for _, i := range rng.Perm(len(faults)) {
		if faults[i].Long {
			long = append(long, faults[i])
		} else {
			brief = append(brief, faults[i])
		}
	}
	plan := append(evenly(long, window/2), evenly(brief, window)...)
	slices.SortStableFunc(plan, func(a, b Planned) int { return cmp.Compare(a.At, b.At) })
	return plan
}

func evenly(faults []Fault, window time.Duration) (plan Schedule) {
	for i, f := range faults {
		plan = append(plan, Planned{At: time.Duration(i) * window / time.Duration(len(faults)), Fault: f})
	}
	return plan
}

// Mixture plans random faults, one about every so often, until the window ends.
func Mixture(faults []Fault, window, every time.Duration, rng *rand.Rand) Schedule {
	var plan Schedule
	for at := time.Duration(0); at < window; at += time.Duration(rng.Int64N(int64(2 * every))) {
		plan = append(plan, Planned{at, faults[rng.IntN(len(faults))]})
	}
	return plan
}

// Play injects a schedule and returns what happened when every fault has ended.
func (s Schedule) Play(ctx context.Context, field Field, rng *rand.Rand) []Injected {
	var mu sync.Mutex
	var done []Injected
	var open sync.WaitGroup
	began := time.Now()
	for _, next := range s {
		f := field
		f.Rand = rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		f.Log = field.Log.With("fault", next.Fault.Name)
		select {
		case <-ctx.Done():
			open.Wait()
			return done
		case <-time.After(time.Until(began.Add(next.At))):
		}
		open.Go(func() {
			at := time.Since(began)
			f.Log.Info("begins", "at", at.Round(100*time.Millisecond))
			err := next.Fault.Inject(ctx, &f)
			mu.Lock()
			defer mu.Unlock()
			done = append(done, Injected{At: at, Name: next.Fault.Name, Took: time.Since(began) - at, Err: err})
		})
	}
	open.Wait()
	return done
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
