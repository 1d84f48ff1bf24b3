package scheduler

import (
	"sync"
	"time"
)

const (
	// A row that Postgres refuses is tried again after refusedFirst, then after twice as long, up to refusedMost.
	refusedFirst = time.Minute
	refusedMost  = 10 * time.Minute
	// mostRefused bounds how many refused rows of a kind are remembered, and named in each look.
	mostRefused = 10_000
)

// refusals remembers which rows Postgres refused to write, so that those behind them have their turn.
type refusals[K comparable] struct {
	mu    sync.Mutex
	known map[K]refusal
}

type refusal struct {
	wait  time.Duration
	until time.Time
}

func newRefusals[K comparable]() *refusals[K] { return &refusals[K]{known: map[K]refusal{}} }

// add says whether the row is refused for the first time, and whether it is remembered: not where too many are.
func (r *refusals[K]) add(row K, now time.Time) (isNew, kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, was := r.known[row]
	if !was && len(r.known) >= mostRefused {
		r.prune(now)
	}
	if !was && len(r.known) >= mostRefused {
		return false, false
	}
	wait := min(max(2*before.wait, refusedFirst), refusedMost)
	r.known[row] = refusal{wait: wait, until: now.Add(wait)}
	return !was, true
}

// prune forgets rows that have not been refused again: most of them are gone.
func (r *refusals[K]) prune(now time.Time) {
	for row, last := range r.known {
		if now.After(last.until) {
			delete(r.known, row)
		}
	}
}

// forget is for a row that is written.
func (r *refusals[K]) forget(row K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, row)
}

// skipped are the rows that are not tried again yet.
func (r *refusals[K]) skipped(now time.Time) []K {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rows []K
	for row, last := range r.known {
		if now.Before(last.until) {
			rows = append(rows, row)
		}
	}
	return rows
}
