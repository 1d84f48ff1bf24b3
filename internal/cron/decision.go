package cron

import "time"

// Decision is what a schedule made of slots that one change of the clocks leaves out or shows twice.
type Decision struct {
	// At is the change; Before and Behind are what the wall shows on both sides of it, as if in UTC.
	At, Before, Behind time.Time
	// First and Last are the slots that it leaves out or shows twice, as times on the wall, and Count how many they are.
	First, Last time.Time
	Count       int
	// Gap is what became of those that were left out, Overlap of those shown twice; the other is empty.
	Gap     Gap
	Overlap Overlap
}

// Decisions are those that touch the time after a moment and not after until, in their order.
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

// Local is what the wall shows at a moment, with its distance from UTC.
func (s Schedule) Local(at time.Time) string {
	return at.In(s.location).Format("Mon 2006-01-02 15:04 -07:00")
}

// longestChange is by how much clocks are put forward or back at most: a day, where a zone changes sides of the date line.
const longestChange = 26 * time.Hour

// decision is what became of slots at a change of the clocks; touches is false where there are none, or none in the time asked for.
func (s *Schedule) decision(at, after, until time.Time) (d Decision, touches bool) {
	old, now := offset(at.Add(-1).In(s.location)), offset(at.In(s.location))
	d = Decision{At: at.UTC(), Before: wall(at, old), Behind: wall(at, now)}
	from, to := d.Before, d.Behind
	begin, end := at.Add(-time.Minute), at // of the moments that it is about
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
