package semantic

import (
	"slices"
	"sync"

	"github.com/google/uuid"
)

// maxWhole bounds how many runs stand in line to be completed. The look for stored runs finds the others.
const maxWhole = 10_000

// wholeRuns is the line of runs whose documents are all stored, and are not all found yet. Each is in it once.
type wholeRuns struct {
	mu   sync.Mutex
	line []uuid.UUID
	in   map[uuid.UUID]struct{}
}

// add puts runs at the end, as far as there is room.
func (w *wholeRuns) add(runs ...uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.in == nil {
		w.in = map[uuid.UUID]struct{}{}
	}
	for _, run := range runs {
		if _, in := w.in[run]; !in && len(w.line) < maxWhole {
			w.in[run] = struct{}{}
			w.line = append(w.line, run)
		}
	}
}

// isFull says whether no further run is taken.
func (w *wholeRuns) isFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.line) >= maxWhole
}

// take removes the first n.
func (w *wholeRuns) take(n int) []uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := slices.Clone(w.line[:min(n, len(w.line))])
	w.line = w.line[len(taken):]
	for _, run := range taken {
		delete(w.in, run)
	}
	return taken
}
