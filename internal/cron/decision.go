package cron

import "time"

// Decision is how a schedule treats the slots that one change of the clocks leaves out or repeats.
type Decision struct {
	// At is the change; Before and Behind are the wall clock on both sides of it, as if in UTC.
	At, Before, Behind time.Time
	// First and Last are the slots that it leaves out or repeats, as times of the wall clock, and Count their number.
	First, Last time.Time
	Count       int
	// Gap is the policy that was used for a gap, Overlap for an overlap; the other is empty.
	Gap     Gap
	Overlap Overlap
}

// Decisions are the decisions that concern the time after a moment and not after until, in their order.
func (s Schedule) Decisions(after, until time.Time) (all []Decision) {
	// A gap may have its slot before the change, and an overlap begins before it.
	for at := after; ; {
		end := s.stretch(at).end
		if end.IsZero() {
			return all
		}
		d, touches := s.decision(end, after, until)
		if touches {
			all = append(all, d)
		}
		if end.After(until.Add(longestChange)) {
			return all
		}
		at = end
	}
}

// Local is the wall clock at a moment, with its distance from UTC.
func (s Schedule) Local(at time.Time) string {
	return at.In(s.location).Format("Mon 2006-01-02 15:04 -07:00")
}

// longestChange is the largest change of the clocks: a day, where a zone changes sides of the date line.
const longestChange = 26 * time.Hour

// decision is the decision at a change of the clocks; touches is false where no slot is concerned, or none in the asked time.
func (s *Schedule) decision(at, after, until time.Time) (d Decision, touches bool) {
	old, now := offset(at.Add(-1).In(s.location)), offset(at.In(s.location))
	d = Decision{At: at.UTC(), Before: wall(at, old), Behind: wall(at, now)}
	from, to := d.Before, d.Behind
	begin, end := at.Add(-time.Minute), at // the interval in question
	switch {
	case now > old:
		d.Gap = s.gap
	case now < old:
		d.Overlap = s.overlap
		from, to = to, from
		begin, end = at.Add(now-old), at.Add(old-now-1)
	default:
		return d, false
	}
	if end.Before(after) || end.Equal(after) || begin.After(until) {
		return d, false
	}
	d.First = s.wall.next(from.Add(-1), to.Add(-1))
	if d.First.IsZero() {
		return d, false
	}
	d.Count = s.wall.count(from.Add(-1), to.Add(-1))
	for d.Last = d.First; ; {
		next := s.wall.next(d.Last, to.Add(-1))
		if next.IsZero() {
			return d, true
		}
		d.Last = next
	}
}
