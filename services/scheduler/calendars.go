package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// calendarsAtOnce is how many calendars are read and asked together. mostTimes is how many of their stretches of time are
	// remembered, 24 bytes each; mostCalendars is how many calendars are.
	calendarsAtOnce = 16
	mostTimes       = 400_000
	mostCalendars   = 50
)

// calendarCache remembers calendars by their versions, which never change. They are read when a connector that is claimed or planned names
// one, and not before.
type calendarCache struct {
	mu    sync.Mutex
	known map[int64]calendarRead
	// windows are the blackout windows, which are asked with the calendars.
	windows blackoutCache
}

// calendarRead is a calendar, or why it cannot be read.
type calendarRead struct {
	times *calendars.Calendar
	err   error
}

// calendarNamed is the calendar that a connector names; that of now where it says no version.
type calendarNamed struct {
	name    *string
	use     string
	version *int64
	// who it is, for blackout windows.
	who blackouts.Who
}

// calendarOf is the calendar of a connector, or why it cannot be read; nil where it names none. blackouts are the windows that may hold it.
type calendarOf struct {
	*slots.Calendar
	err       error
	blackouts []slots.Blackout
}

func (c calendarRead) of(named calendarNamed) calendarOf {
	if c.err != nil {
		return calendarOf{err: fmt.Errorf("%s: %w", slots.Unreadable(*named.name), c.err)}
	}
	return calendarOf{Calendar: &slots.Calendar{Name: *named.name, Use: named.use, Times: c.times}}
}

// each does something with all rows of a batch and their calendars: first with those that name none, then with those of a few calendars at
// a time, so that many are never held at once. The rows are locked, and their calendars are looked up after that: a later change of a calendar
// has the rows planned anew. A calendar that cannot be read is its connectors' problem; an error is Postgres's.
func (c *calendarCache) each(ctx context.Context, q *dbgen.Queries, names []calendarNamed, do func(i int, of calendarOf)) error {
	windows, err := c.windows.now(ctx, q)
	if err != nil {
		return err
	}
	if len(windows) > 0 {
		plain := do
		do = func(i int, of calendarOf) {
			of.blackouts = windows.of(names[i].who)
			plain(i, of)
		}
	}
	var some []int
	for i, n := range names {
		if n.name == nil {
			do(i, calendarOf{})
		} else {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return nil
	}
	versions, err := versionsNow(ctx, q, names)
	if err != nil {
		return err
	}
	var unknown calendarRead
	unknown.err = errors.New("there is none")
	rows := map[int64][]int{}
	for _, i := range some {
		version := versions[*names[i].name]
		if names[i].version != nil {
			version = *names[i].version
		}
		if version == 0 {
			do(i, unknown.of(names[i]))
			continue
		}
		rows[version] = append(rows[version], i)
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(rows)), calendarsAtOnce) {
		read, err := c.read(ctx, q, part)
		if err != nil {
			return err
		}
		for _, version := range part {
			one, found := read[version]
			if !found {
				one = unknown
			}
			for _, i := range rows[version] {
				do(i, one.of(names[i]))
			}
		}
		c.remember(read)
	}
	return nil
}

func versionsNow(ctx context.Context, q *dbgen.Queries, named []calendarNamed) (map[string]int64, error) {
	var names []string
	for _, n := range named {
		if n.name != nil && n.version == nil {
			names = append(names, *n.name)
		}
	}
	slices.Sort(names)
	versions := map[string]int64{}
	if names = slices.Compact(names); len(names) == 0 {
		return versions, nil
	}
	rows, err := q.CalendarVersions(ctx, names)
	for _, r := range rows {
		versions[r.Name] = r.Version
	}
	return versions, wrap("look for the versions of calendars", err)
}

func (c *calendarCache) read(ctx context.Context, q *dbgen.Queries, versions []int64) (map[int64]calendarRead, error) {
	read := map[int64]calendarRead{}
	var missing []int64
	c.mu.Lock()
	for _, v := range versions {
		if known, is := c.known[v]; is {
			read[v] = known
		} else {
			missing = append(missing, v)
		}
	}
	c.mu.Unlock()
	if len(missing) == 0 {
		return read, nil
	}
	found, err := readCalendars(ctx, q, missing)
	for version, one := range found {
		read[version] = one.calendarRead
	}
	return read, err
}

func readCalendars(ctx context.Context, q *dbgen.Queries, versions []int64) (map[int64]timesOf, error) {
	read := map[int64]timesOf{}
	rows, err := q.Calendars(ctx, versions)
	for _, r := range rows {
		times, err := calendars.Read(r.TimeZone, r.Entries)
		read[r.Version] = timesOf{calendarRead{times, err}, r.TimeZone}
	}
	return read, wrap("read calendars", err)
}

// remember keeps what was asked, and forgets all of it where that is too much.
func (c *calendarCache) remember(read map[int64]calendarRead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[int64]calendarRead{}
	}
	maps.Copy(c.known, read)
	times := 0
	for _, one := range c.known {
		if one.times != nil {
			times += one.times.Kept()
		}
	}
	if len(c.known) > mostCalendars || times > mostTimes {
		clear(c.known)
	}
}

// replans has schedules of changed calendars planned anew until ctx ends. It is a loop of its own: no plan waits for it.
func (s *Scheduler) replans(ctx context.Context) error {
	return s.whenAsked(ctx, s.replanWake, "schedules of changed calendars, and what changed blackout windows hold", func(ctx context.Context) error {
		return errors.Join(s.Replan(ctx), s.Release(ctx))
	})
}

// Replan has the schedules of changed calendars planned anew: Plan works them out, and the tick claims what is due at once.
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
