// Package leases finds worker processes that are lost. The evidence is a lease that has expired by Postgres's clock, and a
// heartbeat count that has not advanced for a whole lease of the watcher's own time: a clock of Postgres that jumps forward
// makes leases look expired, but changes no heartbeat.
//
// The heartbeats of all workers are remembered, not only of those whose lease has expired. So the watcher's time runs from the
// last heartbeat on, in parallel with the lease, and a lost worker is found at most one look after its lease.
package leases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/leases/internal/dbgen"
)

const (
	queryTimeout = 5 * time.Second
	// page bounds how many worker processes one query reads.
	page = 1000
	// slack is the part of the patience by which a look may come early. Otherwise a worker whose look came a millisecond early
	// would be found one look later.
	slack = 20
)

// Watch remembers the heartbeats of the worker processes; tens of thousands take little memory.
type Watch struct {
	queries *dbgen.Queries
	// patience is how long a worker must have been silent by this process's clock.
	patience time.Duration
	now      func() time.Time

	mu     sync.Mutex
	seen   map[uuid.UUID]heartbeat
	from   time.Time     // no worker is lost before
	looked time.Time     // the last look
	pace   time.Duration // the time between the last two looks
}

type heartbeat struct {
	beats int64
	since time.Time // by this process's monotonic clock
}

// Silent is a lost worker process, as the moves that take its runs expect it: they check once more that its heartbeats have not
// advanced.
type Silent struct {
	ID    uuid.UUID `json:"id"`
	Beats int64     `json:"beats"`
}

// NewWatch makes a watch. patience is how long a worker must have been silent: a lease. now is this process's monotonic clock.
func NewWatch(pool *pgxpool.Pool, patience time.Duration, now func() time.Time) *Watch {
	return &Watch{queries: dbgen.New(pool), patience: patience, now: now, seen: map[uuid.UUID]heartbeat{}}
}

// Forget starts the watch anew, after a time in which this process, or the workers, may not have reached Postgres. No worker is
// lost before the patience has passed.
func (w *Watch) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
}

func (w *Watch) forget() {
	clear(w.seen)
	w.from = w.now().Add(w.patience)
}

// Unheard excuses the time for which a call had no answer: Postgres may have been as silent to the workers. Unlike
// Forget it keeps the silence before, so that a move that is slow each time does not prevent rescues for ever. It returns false
// for any other error: that calls for Forget, or for nothing.
func (w *Watch) Unheard(passed time.Duration, err error) bool {
	var connecting *pgconn.ConnectError
	var pg *pgconn.PgError
	late := errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &connecting)
	if !late && (!errors.As(err, &pg) || pg.Code != "57014") { // statement_timeout
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, s := range w.seen {
		s.since = s.since.Add(passed)
		w.seen[id] = s
	}
	return true
}

// Held says whether the patience after Forget has not passed yet. Until then no run may be taken from its worker, nor from a
// subscriber without a lease.
func (w *Watch) Held() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now().Before(w.from)
}

// Look returns the workers that are lost and hold runs, as JSON; "[]" where there are none. An error starts the watch anew.
func (w *Watch) Look(ctx context.Context) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if !w.looked.IsZero() {
		pace := now.Sub(w.looked)
		if pace > 2*max(w.patience, w.pace) {
			w.forget() // this process was suspended, and perhaps the workers too
		}
		w.pace = pace
	}
	w.looked = now
	silent, seen := []Silent{}, make(map[uuid.UUID]heartbeat, len(w.seen))
	after := uuid.Nil
	for full := true; full; {
		asked := w.now()
		rows, err := deadline.Get(ctx, "leases.beats", queryTimeout, func(ctx context.Context) ([]dbgen.BeatsRow, error) {
			return w.queries.Beats(ctx, dbgen.BeatsParams{After: after, Page: page})
		})
		if err != nil {
			w.forget()
			return nil, fmt.Errorf("ask for the workers' heartbeats: %w", err)
		}
		answered := w.now()
		for _, r := range rows {
			s, known := w.seen[r.ID]
			if !known || s.beats != r.Beats {
				s = heartbeat{beats: r.Beats, since: answered}
			}
			seen[r.ID] = s
			if r.Expired && asked.Sub(s.since) >= w.patience-w.patience/slack || r.Expired && w.patience == 0 {
				silent = append(silent, Silent{ID: r.ID, Beats: r.Beats})
			}
			after = r.ID
		}
		full = len(rows) == page
	}
	w.seen = seen
	if w.now().Before(w.from) {
		silent = []Silent{}
	}
	return json.Marshal(silent)
}
