package semantic

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/postgres"
)

const (
	// heldWait is how long a store waits for a row that somebody holds, when nobody was known to hold any of its run: as long as a
	// neighbour's store may take. heldProbe is how long where somebody was.
	heldWait, heldProbe = 1500 * time.Millisecond, 50 * time.Millisecond
	// heldPause is how long nobody tries a run of which somebody holds rows, and how long its messages wait: longer with each
	// delivery, up to heldPauses, so that a backlog does not go round and round.
	heldPause, heldPauses = 3 * time.Second, 30 * time.Second
	// heldKept is how long such a run is remembered.
	heldKept = 5 * time.Minute
)

// heldRuns remembers the runs of which somebody holds rows. Their messages are handed back, and nobody waits beside them: the
// others have work.
type heldRuns struct {
	mu    sync.Mutex
	until map[uuid.UUID]time.Time
}

// is says whether a run is not to be tried yet.
func (h *heldRuns) is(run uuid.UUID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until[run])
}

// was remembers a run of which somebody holds rows.
func (h *heldRuns) was(run uuid.UUID) { h.leave(run, heldPause) }

// leave remembers a run for a pause, and forgets those that nobody has asked for in a long time.
func (h *heldRuns) leave(run uuid.UUID, pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for old, until := range h.until {
		if now.Sub(until) > heldKept {
			delete(h.until, old)
		}
	}
	if h.until == nil {
		h.until = map[uuid.UUID]time.Time{}
	}
	h.until[run] = now.Add(pause)
}

// free forgets a run whose rows could be had.
func (h *heldRuns) free(run uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.until, run)
}

// bounds bound a transaction of a run: who waits for a row that somebody holds hands its messages back, and a process that freezes
// loses its locks.
func (h *heldRuns) bounds(run uuid.UUID) postgres.Bounds {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := postgres.Bounds{Lock: heldWait, Statement: storeTimeout, Idle: 10 * time.Second}
	if _, known := h.until[run]; known {
		b.Lock = heldProbe
	}
	return b
}
