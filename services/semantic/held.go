package semantic

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/postgres"
)

const (
	// heldWait is how long a store waits for a row that another transaction holds: as long as another store may take. heldProbe is
	// the same for a run that was already found held.
	heldWait, heldProbe = 1500 * time.Millisecond, 50 * time.Millisecond
	// heldPause is how long a held run is left alone, and how long its messages wait before they are delivered again: longer with
	// each delivery, up to longestHeldPause.
	heldPause, longestHeldPause = 3 * time.Second, 30 * time.Second
	// heldKept is how long a held run is remembered.
	heldKept = 5 * time.Minute
)

// heldRuns remembers runs whose rows another transaction holds. Their messages are handed back, so that no worker waits for them.
type heldRuns struct {
	mu    sync.Mutex
	until map[uuid.UUID]time.Time
}

// contains says whether a run must not be tried yet.
func (h *heldRuns) contains(run uuid.UUID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until[run])
}

// add remembers a held run.
func (h *heldRuns) add(run uuid.UUID) { h.addFor(run, heldPause) }

// addFor remembers a run for a pause, and forgets runs that were not asked for in a long time.
func (h *heldRuns) addFor(run uuid.UUID, pause time.Duration) {
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

// remove forgets a run whose rows are free again.
func (h *heldRuns) remove(run uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.until, run)
}

// bounds limit a transaction of a run: where another transaction holds a row, its messages are handed back soon, and a process that
// freezes loses its locks.
func (h *heldRuns) bounds(run uuid.UUID) postgres.Bounds {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := postgres.Bounds{Lock: heldWait, Statement: storeTimeout, Idle: 10 * time.Second}
	if _, known := h.until[run]; known {
		b.Lock = heldProbe
	}
	return b
}
