package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// mostCalendars is how many calendars are remembered; calendarsAtOnce how many are read by one statement.
	mostCalendars   = 50
	calendarsAtOnce = 32
)

// calendarCache remembers calendars by their versions, which never change. They are read when a connector that is claimed or planned names
// one, and not before.
type calendarCache struct {
	mu    sync.Mutex
	known map[int64]calendarRead
}

// calendarRead is a calendar, or why it cannot be read.
type calendarRead struct {
	times *calendars.Calendar
	err   error
}

// calendarsRead are those of a batch, by their versions.
type calendarsRead map[int64]calendarRead

// of is the calendar that a connector names, or why it cannot be read; nil where it names none.
func (named calendarsRead) of(name *string, use string, version *int64) (*slots.Calendar, error) {
	if name == nil {
		return nil, nil
	}
	c := calendarRead{err: fmt.Errorf("there is none")}
	if version != nil {
		if found, is := named[*version]; is {
			c = found
		}
	}
	if c.err != nil {
		return nil, fmt.Errorf("%s: %w", slots.Unreadable(*name), c.err)
	}
	return &slots.Calendar{Name: *name, Use: use, Times: c.times}, nil
}

func (c *calendarCache) ofDue(ctx context.Context, q *dbgen.Queries, rows []dbgen.LockDueRow) (calendarsRead, error) {
	versions := make([]*int64, len(rows))
	for i, r := range rows {
		versions[i] = r.CalendarVersion
	}
	return c.read(ctx, q, versions)
}

// read reads those of a batch that are not remembered. One that cannot be read is its connectors' problem; an error is Postgres's.
func (c *calendarCache) read(ctx context.Context, q *dbgen.Queries, versions []*int64) (calendarsRead, error) {
	var all, missing []int64
	for _, v := range versions {
		if v != nil {
			all = append(all, *v)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	slices.Sort(all)
	named := calendarsRead{}
	c.mu.Lock()
	for _, v := range slices.Compact(all) {
		if known, is := c.known[v]; is {
			named[v] = known
		} else {
			missing = append(missing, v)
		}
	}
	c.mu.Unlock()
	for part := range slices.Chunk(missing, calendarsAtOnce) {
		rows, err := q.Calendars(ctx, part)
		if err != nil {
			return nil, wrap("read calendars", err)
		}
		for _, r := range rows {
			times, err := calendars.Read(r.TimeZone, r.Entries)
			named[r.Version] = calendarRead{times, err}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known)+len(missing) > mostCalendars {
		c.known = map[int64]calendarRead{}
	}
	for _, v := range missing[:min(len(missing), mostCalendars)] {
		if r, is := named[v]; is {
			c.known[v] = r
		}
	}
	return named, nil
}

// replans has schedules of changed calendars planned anew until ctx ends. It is a loop of its own: no plan waits for it.
func (s *Scheduler) replans(ctx context.Context) error {
	return s.whenAsked(ctx, s.replanWake, "schedules of changed calendars", s.Replan)
}

// Replan has the schedules planned anew that name a calendar which has changed: what is worked out anew is left to Plan, and what is due at
// once to the tick.
func (s *Scheduler) Replan(ctx context.Context) error {
	for some := false; ctx.Err() == nil; some = true {
		n, err := deadline.Get(ctx, "scheduler.replan_calendars", claimTimeout, func(ctx context.Context) (int32, error) {
			return s.queries.ReplanCalendars(ctx, int32(s.config.ClaimBatch))
		})
		if err != nil {
			return fmt.Errorf("plan schedules of changed calendars: %w", err)
		}
		if n == 0 {
			if some {
				s.wishes.add("")
				signal(s.planWake)
				signal(s.wake)
			}
			return nil
		}
	}
	return nil
}
