package campaign

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/world"
)

const (
	// idleBound is what a program's transaction may stand idle, whatever became of the program: its timeout, and a little for
	// Postgres to notice.
	idleBound = 20 * time.Second
	idlePoll  = 500 * time.Millisecond
	// settles is how long Postgres takes to notice that its clock was set. Its timeouts go by that clock, so a transaction that stood
	// then may stand for as long as the clock was off.
	settles = 2 * time.Second
)

// idlers looks at the programs' transactions that nobody goes on with.
type idlers struct {
	mu      sync.Mutex
	looked  int
	longest map[string]time.Duration
	// since is when each was first seen, by the harness's clock: Postgres's may step.
	since map[string]time.Time
}

// watch looks until ctx ends. Postgres away is no look.
func (i *idlers) watch(ctx context.Context, w *world.World) {
	for ctx.Err() == nil {
		i.look(ctx, w)
		select {
		case <-ctx.Done():
		case <-time.After(idlePoll):
		}
	}
}

func (i *idlers) look(ctx context.Context, w *world.World) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := w.Pool.Query(ctx, `
		SELECT format('%s, process %s: %s', application_name, pid, left(query, 80)), pid || ' ' || state_change
		FROM pg_stat_activity
		WHERE application_name LIKE 'echomind-%' AND state = 'idle in transaction' -- one that failed holds nothing any more`)
	if err != nil {
		return
	}
	defer rows.Close()
	i.mu.Lock()
	defer i.mu.Unlock()
	seen := map[string]time.Time{}
	for rows.Next() {
		var who, which string
		if rows.Scan(&who, &which) != nil {
			continue
		}
		i.looked++
		if seen[which] = i.since[which]; seen[which].IsZero() {
			seen[which] = time.Now()
		}
		if !w.ClockSet().Before(seen[which].Add(-settles)) {
			continue
		}
		i.longest[who] = max(i.longest[who], time.Since(seen[which]))
	}
	i.since = seen
}

func (i *idlers) finding() audit.Finding {
	i.mu.Lock()
	defer i.mu.Unlock()
	f := audit.Finding{
		Promise: 1, Name: "no transaction stands idle", Checked: i.looked,
		How: fmt.Sprintf("no program's transaction waits more than %s for a program that is frozen, cut off or gone", idleBound),
	}
	for who, idle := range i.longest {
		if idle > idleBound {
			violated(&f, fmt.Sprintf("%s stood idle in its transaction for %s", who, idle.Round(time.Millisecond)))
		}
	}
	return f
}
