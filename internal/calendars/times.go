package calendars

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/echomind/sync/internal/cron"
)

// stretch is a time in which a calendar says the same, in seconds since 1970.
type stretch struct {
	from, until int64
	name        int32
	on          bool
}

// moment is when a zone's clocks show a time.
func moment(s stamp, zone *time.Location) time.Time {
	year, month, of := s.day.date()
	if s.second == 0 {
		return cron.Midnight(year, month, of, zone)
	}
	return time.Date(year, month, of, 0, 0, s.second, 0, zone)
}

// span is one occurrence of an entry, in seconds since 1970.
type span struct {
	from, until int64
	name        int32
}

// spans are the occurrences of an entry that may reach into the time between two moments.
func (e entry) spans(from, until time.Time, yield func(span)) {
	add := func(start stamp) {
		s := span{moment(start, e.zone).Unix(), moment(stamp{start.day + day(e.days), e.end}, e.zone).Unix(), e.name}
		if s.from < until.Unix() && s.until > from.Unix() {
			yield(s)
		}
	}
	for _, start := range e.also {
		if !e.not[start.day] {
			add(start)
		}
	}
	switch r := e.rule; {
	case r != nil:
		first, last := stampOf(from.UTC()).day-day(e.days)-2, stampOf(until.UTC()).day+2
		for d := range r.days(first, last) {
			start := stamp{d, e.start.second}
			if r.until != nil && (d > r.until.day || d == r.until.day && start.second > r.until.second) ||
				!r.utcUntil.IsZero() && moment(start, e.zone).After(r.utcUntil) {
				return
			}
			if !e.not[d] {
				add(start)
			}
		}
	case !e.not[e.start.day]:
		add(e.start)
	}
}

// year is what the calendar says in a year of UTC.
func (c *Calendar) year(year int) []stretch {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, known := c.years[year]
	if !known {
		from, until := yearOf(year), yearOf(year+1)
		var on, except []span
		for _, e := range c.entries {
			to := &on
			if e.except {
				to = &except
			}
			e.spans(from, until, func(s span) { *to = append(*to, s) })
		}
		all = stretches(from.Unix(), until.Unix(), flat(on), flat(except))
		if c.kept += len(all); c.kept > mostKept {
			clear(c.years)
			c.kept = len(all)
		}
		c.years[year] = all
		if !slices.ContainsFunc(all, func(s stretch) bool { return s.on != all[0].on }) {
			c.whole[year] = whole{all[0].on, len(all)}
		}
	}
	return all
}

// whole is what a calendar says of all of a year, in so many stretches.
type whole struct {
	on        bool
	stretches int
}

// wholly is in how many stretches all of a year is known to be on the calendar, or nothing of it; else 0.
func (c *Calendar) wholly(year int, on bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, known := c.whole[year]; known && w.on == on {
		return w.stretches
	}
	return 0
}

// Kept is how many stretches of time are kept worked out, of 24 bytes each.
func (c *Calendar) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

func utc(second int64) time.Time { return time.Unix(second, 0).UTC() }

func yearOf(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }

// flat cuts spans so that none covers another: what has begun first says what the time is called.
func flat(all []span) (cut []span) {
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	// What is cut off behind one waits for its end; its place among the others stays.
	for _, one := range all {
		if n := len(cut); n > 0 {
			one.from = max(one.from, cut[n-1].until)
		}
		if one.from < one.until {
			cut = append(cut, one)
		}
	}
	return cut
}

// stretches divide a time: on where one of the spans is, and no exception.
func stretches(from, until int64, on, except []span) (all []stretch) {
	cuts := []int64{from, until}
	for _, some := range [][]span{on, except} {
		for _, s := range some {
			for _, at := range []int64{s.from, s.until} {
				if at > from && at < until {
					cuts = append(cuts, at)
				}
			}
		}
	}
	slices.Sort(cuts)
	for i, begin := range cuts[:len(cuts)-1] {
		s := stretch{from: begin, until: cuts[i+1]}
		if s.from == s.until {
			continue
		}
		if by, is := at(except, begin); is {
			s.name = by.name
		} else if by, is := at(on, begin); is {
			s.on, s.name = true, by.name
		}
		if n := len(all) - 1; n >= 0 && all[n].alike(s) {
			all[n].until = s.until
		} else {
			all = append(all, s)
		}
	}
	return slices.Clip(all)
}

// at is the span that a moment is in.
func at(all []span, moment int64) (span, bool) {
	i, found := slices.BinarySearchFunc(all, moment, func(s span, t int64) int { return cmp.Compare(s.from, t) })
	if !found {
		i--
	}
	if i < 0 || moment >= all[i].until {
		return span{}, false
	}
	return all[i], true
}

func (s stretch) alike(t stretch) bool { return s.on == t.on && s.name == t.name }

// from are the stretches from that of a moment on, through so many years behind it; they end where it does.
func (c *Calendar) from(moment time.Time) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		year := moment.UTC().Year()
		all := c.year(year)
		all = all[index(all, moment.Unix()):]
		here := all[0]
		for range mostAhead {
			for _, s := range all[1:] {
				if !yield(here) {
					return
				}
				here = s
			}
			year++
			if all = c.year(year); all[0].alike(here) {
				here.until = all[0].until
				continue
			}
			if !yield(here) {
				return
			}
			here = all[0]
		}
		yield(here)
	}
}

// At says whether the calendar has a moment, what that time is called there, and until when it says the same. A time that it does not
// have has a name where an exception takes it away.
func (c *Calendar) At(moment time.Time) (on bool, name string, until time.Time) {
	for s := range c.from(moment) {
		return s.on, c.names[s.name], utc(s.until)
	}
	return false, "", time.Time{}
}

// index is that of the stretch of a year that a moment is in.
func index(all []stretch, moment int64) int {
	i, found := slices.BinarySearchFunc(all, moment, func(s stretch, t int64) int { return cmp.Compare(s.from, t) })
	if found {
		return i
	}
	return i - 1
}

// Changes are the moments behind one and before another at which the calendar begins to say something else: the last most of them. The
// calendar is not looked at before since, which is zero where they are all.
func (c *Calendar) Changes(from, until time.Time, most int) (all []time.Time, since time.Time) {
	oldest := until.UTC().Year() - mostBehind
	for year := until.UTC().Year(); year >= from.UTC().Year(); year-- {
		if year < oldest {
			return reversed(all), yearOf(year + 1)
		}
		for _, s := range slices.Backward(c.year(year)) {
			switch begin := utc(s.from); {
			case !begin.Before(until):
				continue
			case !begin.After(from):
				return reversed(all), time.Time{}
			case len(all) == most:
				return reversed(all), all[len(all)-1]
			default:
				all = append(all, begin)
			}
		}
	}
	return reversed(all), time.Time{}
}

func reversed(all []time.Time) []time.Time {
	all = slices.Clone(all)
	slices.Reverse(all)
	return all
}

// Begins is the first time, at a moment or behind it, that the calendar has, or has not; both are zero where none is within years, or
// behind too many stretches that say otherwise.
func (c *Calendar) Begins(moment time.Time, on bool) (from, until time.Time) {
	first, second, passed := moment.UTC().Year(), moment.Unix(), 0
	for year := first; year <= first+mostAhead && passed <= mostPassed; year++ {
		if n := c.wholly(year, !on); n > 0 {
			passed += n
			continue
		}
		all := c.year(year)
		if year == first {
			all = all[index(all, second):]
		}
		for _, s := range all {
			if s.on != on {
				continue
			}
			if from = utc(s.from); s.from <= second {
				from = moment
			}
			_, _, until = c.At(from)
			return from, until
		}
		passed += len(all)
	}
	return time.Time{}, time.Time{}
}

// Span is a time that a calendar has.
type Span struct {
	From time.Time `json:"from"`
	// To is nil where it goes on for longer than is looked.
	To   *time.Time `json:"to"`
	Name string     `json:"name"`
}

// Coming are the next times of a calendar within the next mostAhead years, so many at most; one that goes on begins at the moment. Its
// errors are ctx's.
func (c *Calendar) Coming(ctx context.Context, moment time.Time, most int) ([]Span, error) {
	all, second := []Span{}, moment.Unix()
	end := int64(0) // of the last one
	first := moment.UTC().Year()
	for year := first; year <= first+mostAhead; year++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, s := range c.year(year) {
			n := len(all) - 1
			switch name := c.names[s.name]; {
			case !s.on || s.until <= second:
			case n >= 0 && s.from == end && all[n].Name == name: // it goes on behind new year
				end = s.until
			case n+1 == most:
				return all, nil
			default:
				all = append(all, Span{From: utc(max(s.from, second)), Name: name})
				n, end = n+1, s.until
			}
			if n >= 0 && s.on {
				all[n].To = new(utc(end))
			}
		}
	}
	if end >= yearOf(first+mostAhead+1).Unix() {
		all[len(all)-1].To = nil
	}
	return all, nil
}
