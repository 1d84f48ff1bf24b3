package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// blackoutCache remembers the calendars of blackout windows by their versions, which never change. There are at most a hundred windows.
type blackoutCache struct {
	mu    sync.Mutex
	known map[int64]timesOf              // replaced as a whole
	tell  func(window string, err error) // that a calendar cannot be read; when it is read
}

// timesOf is a calendar as a window needs it.
type timesOf struct {
	calendarRead
	zone string
}

// windows are the blackout windows that stand in the table, for a batch whose rows are locked: a window that is written later is for the next batch.
type windows []window

type window struct {
	blackouts.Window
	at slots.Blackout
}

// now reads the windows. One whose calendar cannot be read holds nobody. Errors are Postgres's.
func (c *blackoutCache) now(ctx context.Context, q *dbgen.Queries) (windows, error) {
	rows, err := q.Blackouts(ctx)
	if err != nil || len(rows) == 0 {
		return nil, wrap("read the blackout windows", err)
	}
	times, err := c.times(ctx, q, rows)
	if err != nil {
		return nil, err
	}
	var all windows
	for i, r := range rows {
		if times[i].err == nil {
			w := blackouts.Window{Name: r.Name, Mode: r.Mode, SpreadMinutes: r.SpreadMinutes, UserID: r.UserID, Types: r.Types, Except: r.ExceptConnectors, Version: r.Version}
			all = append(all, window{w, w.At(times[i].zone, times[i].times)})
		}
	}
	return all, nil
}

// times are the calendars of windows. Nobody waits for another batch that reads some.
func (c *blackoutCache) times(ctx context.Context, q *dbgen.Queries, rows []dbgen.BlackoutsRow) ([]timesOf, error) {
	missing := map[int64]bool{}
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	for _, r := range rows {
		if _, is := known[r.CalendarVersion]; !is {
			missing[r.CalendarVersion] = true
		}
	}
	read := map[int64]timesOf{}
	if len(missing) > 0 {
		var err error
		if read, err = readCalendars(ctx, q, slices.Sorted(maps.Keys(missing))); err != nil {
			return nil, err
		}
	}
	kept := map[int64]timesOf{}
	all := make([]timesOf, len(rows))
	for i, r := range rows {
		one, is := known[r.CalendarVersion]
		if !is {
			if one, is = read[r.CalendarVersion]; !is {
				return nil, fmt.Errorf("blackout `%s`: its calendar was replaced too often while it was read", r.Name)
			}
			if one.err != nil {
				c.tell(r.Name, one.err)
			}
		}
		all[i], kept[r.CalendarVersion] = one, one
	}
	if len(read) > 0 {
		c.mu.Lock()
		c.known = kept
		c.mu.Unlock()
	}
	return all, nil
}

// of are those that may hold a connector.
func (w windows) of(c blackouts.Who) (some []slots.Blackout) {
	for _, one := range w {
		if one.Holds(c) {
			some = append(some, one.at)
		}
	}
	return some
}

// putOff is the claim of a connector that a window puts off, as moves.hold_blackout wants it.
type putOff struct {
	ID       int32     `json:"id"`
	Asked    bool      `json:"asked"`
	Until    time.Time `json:"until"`
	Blackout string    `json:"blackout"`
	Version  int64     `json:"version"`
	Spread   float64   `json:"spread"`
	// Latest is when its slot is too old; null = never.
	Latest *time.Time `json:"latest,omitempty"`
}

func heldBy(id int32, asked bool, h slots.Held) *putOff {
	return &putOff{ID: id, Asked: asked, Until: h.Until, Blackout: h.Blackout.Name, Version: h.Blackout.Version, Spread: h.Blackout.Spread.Seconds()}
}

// heldOf says whether what a connector would be claimed for now waits for the end of a window.
func heldOf(r dbgen.LockDueRow, s slot, c calendarOf) *putOff {
	if len(c.blackouts) == 0 {
		return nil
	}
	latest := time.Time{}
	if oldest := columnsOfDue(r).Policies().Oldest(); s.At != nil && oldest > 0 {
		latest = s.At.Add(oldest)
	}
	h, is := slots.Hold(c.blackouts, r.ID, r.Now, latest)
	if !is {
		return nil
	}
	held := heldBy(r.ID, r.Asked, h)
	if !latest.IsZero() {
		held.Latest = &latest
	}
	return held
}

// hold writes down whom windows put off.
func (s *Scheduler) hold(ctx context.Context, tx pgx.Tx, all []*putOff) error {
	if len(all) == 0 {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return wrap("write whom blackout windows hold", err)
	}
	if _, err = s.queries.WithTx(tx).HoldBlackout(ctx, text); err != nil {
		return wrap("write down whom blackout windows hold", err)
	}
	for _, h := range all {
		s.metrics.held.WithLabelValues(h.Blackout).Inc()
	}
	return nil
}

// Release has connectors looked at again that a window has put off, where the window was changed or deleted since.
func (s *Scheduler) Release(ctx context.Context) error {
	for some := false; ctx.Err() == nil; some = true {
		n, err := deadline.Get(ctx, "scheduler.release_held", claimTimeout, func(ctx context.Context) (int32, error) {
			return s.queries.ReleaseHeld(ctx, int32(s.config.ClaimBatch))
		})
		if err != nil {
			return fmt.Errorf("release whom blackout windows held: %w", err)
		}
		if n == 0 {
			if some {
				s.wishes.add("")
				signal(s.wake)
			}
			return nil
		}
	}
	return nil
}
