package cron

import "time"

// stretch is a time in which a zone's clocks do not change, with the schedule's policies for the changes at its ends. Wall
// times are kept as if they were UTC, where no hour is missing.
type stretch struct {
	wall       *fields
	begin, end time.Time // zero: since ever, for ever
	offset     time.Duration
	// from and until bound the wall times of its slots; until is excluded. Zero: no bound.
	from, until time.Time
	// gapBefore says that a slot of the gap before it runs at its beginning; gapBehind, that a slot of the gap behind it runs
	// in its last minute.
	gapBefore, gapBehind bool
}

// stretch returns the stretch of a moment.
func (s *Schedule) stretch(at time.Time) stretch {
	at = at.In(s.location)
	p := stretch{wall: &s.wall, offset: offset(at)}
	p.begin, p.end = bounds(at)
	if !p.begin.IsZero() {
		p.from = p.wallAt(p.begin)
		before := wall(p.begin, offset(p.begin.Add(-1)))
		switch {
		case before.After(p.from) && s.overlap == OverlapFirst:
			p.from = before
		case before.Before(p.from) && s.gap == GapAfter:
			p.gapBefore = s.wall.any(before, p.from)
		}
	}
	if !p.end.IsZero() {
		p.until = p.wallAt(p.end)
		behind := wall(p.end, offset(p.end))
		switch {
		case behind.Before(p.until) && s.overlap == OverlapSecond:
			p.until = behind
		case behind.After(p.until) && s.gap == GapBefore:
			p.gapBehind = s.wall.any(p.until, behind)
		}
	}
	return p
}

// bounds are the ends of a moment's stretch. After the changes that a zone's file lists, package time ends a stretch at the end
// of each year, and in leap years a day early: the last day is then out of its own bounds. Such ends change no offset.
func bounds(at time.Time) (begin, end time.Time) {
	begin, end = at.ZoneBounds()
	for !end.IsZero() && !end.After(at) {
		begin, end = end, end.Add(24*time.Hour)
	}
	return begin, end
}

func offset(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// wall is the wall clock at a moment, as if it were UTC.
func wall(at time.Time, offset time.Duration) time.Time { return at.UTC().Add(offset) }

func (p *stretch) wallAt(at time.Time) time.Time { return wall(at, p.offset) }

// next is the stretch's first slot after a moment and not after the horizon; zero when there is none.
func (p *stretch) next(after, horizon time.Time) (slot time.Time) {
	if p.gapBefore && p.begin.After(after) {
		return p.begin.UTC()
	}
	low, high := p.bounds(after, horizon)
	if shown := p.wall.next(low, high); !shown.IsZero() {
		slot = shown.Add(-p.offset)
	}
	if last := p.lastMinute(); p.gapBehind && last.After(after) && (slot.IsZero() || slot.After(last)) {
		return last
	}
	return slot
}

// count is the number of slots of the stretch after a moment and not after another.
func (p *stretch) count(after, until time.Time) int {
	low, high := p.bounds(after, until)
	n := p.wall.count(low, high)
	inside := func(at time.Time) bool { return at.After(after) && !at.After(until) }
	if p.gapBefore && inside(p.begin) && !p.isSlot(p.begin) {
		n++
	}
	if last := p.lastMinute(); p.gapBehind && inside(last) && !p.isSlot(last) {
		n++
	}
	return n
}

// bounds are the wall times of the stretch after one moment and not after another: after low, and not after high.
func (p *stretch) bounds(after, until time.Time) (low, high time.Time) {
	low, high = p.wallAt(after), p.wallAt(until)
	if first := p.from.Add(-1); !p.from.IsZero() && first.After(low) {
		low = first
	}
	if last := p.until.Add(-1); !p.until.IsZero() && last.Before(high) {
		high = last
	}
	return low, high
}

// isSlot says whether a moment of the stretch is a slot under every policy.
func (p *stretch) isSlot(at time.Time) bool {
	low, high := p.bounds(at.Add(-1), at)
	return p.wall.any(low.Add(1), high.Add(1))
}

// lastMinute is the last moment at which the wall clock begins a minute.
func (p *stretch) lastMinute() time.Time {
	return p.wallAt(p.end).Add(-1).Truncate(time.Minute).Add(-p.offset)
}
