// Package leases tells which worker processes are lost. The evidence is a lease that has run out by Postgres's clock, and
// heartbeats that have not been seen to advance for a whole lease of the watcher's own time: a clock of Postgres that steps
// forward makes leases look old, and makes nobody silent.
package leases

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/leases/internal/dbgen"
	"github.com/echomind/sync/sdk/deadline"
)

const (
	queryTimeout = 5 * time.Second
	// page bounds how many worker processes one look judges: those that expired first.
	page = 1000
)

// Watch remembers the heartbeats of workers whose lease has run out. One goroutine uses it.
type Watch struct {
	queries *dbgen.Queries
	// patience is how long a worker must have been silent, seen from here.
	patience time.Duration
	seen     map[uuid.UUID]sight
}

type sight struct {
	beats int64
	since time.Time // by this process's monotonic clock
}

// Silent is one worker process that is lost, as the moves that take its runs want it: they look once more whether its
// heartbeats stand where they stood.
type Silent struct {
	ID    uuid.UUID `json:"id"`
	Beats int64     `json:"beats"`
}

// NewWatch makes a watch. patience is the time a worker has, after its lease has run out, to be heard of.
func NewWatch(pool *pgxpool.Pool, patience time.Duration) *Watch {
	return &Watch{queries: dbgen.New(pool), patience: patience, seen: map[uuid.UUID]sight{}}
}

// Forget begins all over: after a time in which this process, or the workers, may not have reached Postgres.
func (w *Watch) Forget() { clear(w.seen) }

// Look returns the workers that are lost, as JSON; "[]" where none is. An error forgets what was seen.
func (w *Watch) Look(ctx context.Context) ([]byte, error) {
	rows, err := deadline.Get(ctx, "leases.expired_workers", queryTimeout, func(ctx context.Context) ([]dbgen.ExpiredWorkersRow, error) {
		return w.queries.ExpiredWorkers(ctx, page)
	})
	if err != nil {
		w.Forget()
		return nil, fmt.Errorf("ask which leases have run out: %w", err)
	}
	silent, now := []Silent{}, time.Now()
	seen := make(map[uuid.UUID]sight, len(rows))
	for _, r := range rows {
		s, known := w.seen[r.ID]
		if !known || s.beats != r.Beats {
			s = sight{beats: r.Beats, since: now}
		}
		seen[r.ID] = s
		if now.Sub(s.since) >= w.patience {
			silent = append(silent, Silent{ID: r.ID, Beats: r.Beats})
		}
	}
	w.seen = seen
	return json.Marshal(silent)
}
