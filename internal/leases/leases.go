// Package leases tells which worker processes are lost. The evidence is a lease that has run out by Postgres's clock, and
// heartbeats that have not been seen to advance for a whole lease of the watcher's own time: a clock of Postgres that steps
// forward makes leases look old, and makes nobody silent.
//
// The heartbeats of every worker are remembered, not only of those whose lease has run out. So the watcher's time runs from
// the last heartbeat on, beside the lease and not behind it, and a lost worker is known one look after its lease at the latest.
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
	// slack is the part of the patience by which looks may come early. Without it a worker whose last look came a millisecond
	// early would be lost a whole look later.
	slack = 20
)

// Watch remembers the heartbeats of the worker processes: tens of thousands are no burden.
type Watch struct {
	queries *dbgen.Queries
	// patience is how long a worker must have been silent, seen from here.
	patience time.Duration

	mu     sync.Mutex
	seen   map[uuid.UUID]sight
	from   time.Time     // nobody is lost before
	looked time.Time     // the last look
	pace   time.Duration // the time between the last two looks
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

// NewWatch makes a watch. patience is for how long a worker must not have been heard of: a lease.
func NewWatch(pool *pgxpool.Pool, patience time.Duration) *Watch {
	return &Watch{queries: dbgen.New(pool), patience: patience, seen: map[uuid.UUID]sight{}}
}

// Forget begins all over: after a time in which this process, or the workers, may not have reached Postgres. Nobody is lost
// before the patience has passed.
func (w *Watch) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
}

func (w *Watch) forget() {
	clear(w.seen)
	w.from = time.Now().Add(w.patience)
}

// Unheard is for a call that had no answer in time since `from`: what passed of it counts as nobody's silence, because Postgres
// may have been as silent to the workers. Unlike Forget it keeps the silence of before, so that a move which is slow each time
// keeps nobody unrescued for ever. It says whether err is of that kind; any other is for Forget, or no loss of sight at all.
func (w *Watch) Unheard(from time.Time, err error) bool {
	var connecting *pgconn.ConnectError
	var pg *pgconn.PgError
	late := errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &connecting)
	if !late && (!errors.As(err, &pg) || pg.Code != "57014") { // statement_timeout
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	passed := time.Since(from)
	for id, s := range w.seen {
		s.since = s.since.Add(passed)
		w.seen[id] = s
	}
	return true
}

// Held says whether the patience after Forget has not passed yet. Until then nobody's runs are to be taken, those of
// subscribers without a lease neither.
func (w *Watch) Held() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.from)
}

// Look returns the workers that are lost and hold runs, as JSON; "[]" where none is. An error forgets what was seen.
func (w *Watch) Look(ctx context.Context) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.looked.IsZero() {
		pace := now.Sub(w.looked)
		if pace > 2*max(w.patience, w.pace) {
			w.forget() // this process stood still, and perhaps the workers beside it
		}
		w.pace = pace
	}
	w.looked = now
	silent, seen := []Silent{}, make(map[uuid.UUID]sight, len(w.seen))
	after := uuid.Nil
	for full := true; full; {
		asked := time.Now()
		rows, err := deadline.Get(ctx, "leases.beats", queryTimeout, func(ctx context.Context) ([]dbgen.BeatsRow, error) {
			return w.queries.Beats(ctx, dbgen.BeatsParams{After: after, Page: page})
		})
		if err != nil {
			w.forget()
			return nil, fmt.Errorf("ask for the workers' heartbeats: %w", err)
		}
		answered := time.Now()
		for _, r := range rows {
			s, known := w.seen[r.ID]
			if !known || s.beats != r.Beats {
				s = sight{beats: r.Beats, since: answered}
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
	if time.Now().Before(w.from) {
		silent = []Silent{}
	}
	return json.Marshal(silent)
}
