package campaign

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/fault"
)

// maxGrace is where the doubling of a message's grace ends.
const maxGrace = time.Minute

// Repeats hears every trigger that is published.
type Repeats struct {
	mu    sync.Mutex
	heard map[string][]time.Time // by run: when its messages say that they were dispatched, by Postgres's clock
}

// NewRepeats has heard nothing yet.
func NewRepeats() *Repeats { return &Repeats{heard: map[string][]time.Time{}} }

// Hear takes a message of the sync stream. What the harness has said itself is none of the scheduler's.
func (r *Repeats) Hear(msg *nats.Msg) {
	at, err := topology.DispatchedAt(msg.Header)
	run := msg.Header.Get(topology.HeaderSession)
	if err != nil || run == "" || fault.Said(msg) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard[run] = append(r.heard[run], at)
}

// Runs are those whose messages were heard.
func (r *Repeats) Runs() (all []uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for run := range r.heard {
		if id, err := uuid.Parse(run); err == nil {
			all = append(all, id)
		}
	}
	return all
}

// Finding holds what was heard against the grace, which is how long a message may be on its way before it is looked for. A
// message that was not heard only makes the grace look shorter than it was. In a cluster one message may be heard twice: by a
// subscriber that has come from another server.
func (r *Repeats) Finding(grace time.Duration, cluster bool) audit.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := audit.Finding{
		Promise: 1, Name: "nothing is published in a loop",
		How: "each dispatch of a run is published once, and none within the grace of the one before, which doubles",
	}
	for run, at := range r.heard {
		slices.SortFunc(at, time.Time.Compare) // a scheduler that was frozen publishes late
		if cluster {
			at = slices.CompactFunc(at, time.Time.Equal)
		}
		f.Checked += len(at)
		for i := 1; i < len(at); i++ {
			wait := min(grace<<min(i-1, 10), maxGrace)
			if after := at[i].Sub(at[i-1]); after < wait {
				violated(&f, fmt.Sprintf("message %d of run %s was dispatched %s after the one before, whose grace is %s", i+1, run, after, wait))
			}
		}
	}
	return f
}
