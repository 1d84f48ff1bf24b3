package cron

import (
	"math/bits"
	"time"
)

// Count is how many slots there are after a moment and not after until. It costs some nanoseconds a day, so that a schedule
// which nobody claimed for decades is counted in a few milliseconds: between two changes of the clocks the slots of a day are
// multiplied, not walked.
func (s Schedule) Count(after, until time.Time) int {
	n, at := 0, after.In(s.location)
	if change, _ := at.ZoneBounds(); !change.IsZero() {
		at = behindRepeats(at, change)
	}
	for at.Before(until) {
		_, change := at.ZoneBounds()
		if change.IsZero() || change.After(until) {
			return n + s.onTheWall(asWall(at), asWall(until.In(s.location)))
		}
		n += s.onTheWall(asWall(at), asWall(change.Add(-1).In(s.location)))
		if s.Next(change.Add(-1)).Equal(change) { // of all slots in a gap there is one, at its end
			n++
		}
		at = behindRepeats(change.In(s.location), change)
	}
	return n
}

// behindRepeats is a moment, or the end of the times after a change of the clocks that the wall shows again: a slot counts the
// first time.
func behindRepeats(at, change time.Time) time.Time {
	_, now := change.In(at.Location()).Zone()
	_, before := change.Add(-1).In(at.Location()).Zone()
	if end := change.Add(time.Duration(before-now)*time.Second - 1); end.After(at) {
		return end.In(at.Location())
	}
	return at
}

// onTheWall is how many slots the wall shows after a time and not after another, where the clocks do not change.
func (s Schedule) onTheWall(after, until time.Time) int {
	if !after.Before(until) {
		return 0
	}
	day := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	first, last := day(after), day(until)
	n, whole := -s.upTo(after), s.perDay()
	for at := first; at.Before(last); at = at.Add(24 * time.Hour) {
		if s.wall.isOn(at) {
			n += whole
		}
	}
	return n + s.upTo(until)
}

func (s Schedule) perDay() int {
	return bits.OnesCount64(s.wall.hour&(1<<24-1)) * bits.OnesCount64(s.wall.minute&(1<<60-1))
}

// upTo is how many slots a day has up to a time of it.
func (s Schedule) upTo(t time.Time) int {
	if !s.wall.isOn(t) {
		return 0
	}
	hours, minutes := s.wall.hour&(1<<24-1), s.wall.minute&(1<<60-1)
	n := bits.OnesCount64(hours&(1<<t.Hour()-1)) * bits.OnesCount64(minutes)
	if hours>>t.Hour()&1 == 1 {
		n += bits.OnesCount64(minutes & (1<<(t.Minute()+1) - 1))
	}
	return n
}
