package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/echomind/sync/internal/deadline"
)

// turnEvery is how often the scheduler looks again for the owner whose turn it is, while places of a capped type are free and a
// look has found nobody: it passes over 500 owners, or over a few whose connectors somebody holds.
const turnEvery = 200 * time.Millisecond

// turns are the capped types whose looks go on from owner to owner.
type turns struct {
	mu   sync.Mutex
	laps map[string]*lap
}

// lap is one time round all owners, from where it began.
type lap struct {
	from, at int32
	over     bool // past the last owner
}

// goesOn says whether a look that has found nobody, and has come to this owner, is to go on at once. It is not if it has not moved,
// because no place is free, or has been round all owners.
func (t *turns) goesOn(kind string, at int32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.laps[kind]
	if l == nil {
		t.laps[kind] = &lap{from: at, at: at}
		return true
	}
	if at == l.at {
		return false
	}
	l.over = l.over || at < l.at
	if l.over && at >= l.from {
		delete(t.laps, kind)
		return false
	}
	l.at = at
	return true
}

// found begins a new lap at the next look that finds nobody.
func (t *turns) found(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.laps, kind)
}

// turnsOn says whether the looks for connectors of a capped type go on after a look that has found none.
func (s *Scheduler) turnsOn(ctx context.Context, kind string) bool {
	at, err := deadline.Get(ctx, "scheduler.turn", queryTimeout, func(ctx context.Context) (int32, error) {
		return s.queries.OwnerTurn(ctx, kind)
	})
	return err == nil && s.turns.goesOn(kind, at)
}
