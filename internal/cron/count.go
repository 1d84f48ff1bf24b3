package cron

import (
	"math/bits"
	"time"
)

// Count is how many slots there are after a moment and not after until. It costs some nanoseconds a day, so that a schedule
// which nobody claimed for decades is counted in a few milliseconds: between two changes of the clocks the slots of a day are
// multiplied, not walked.
func (s Schedule) Count(after, until time.Time) int {
	n, at := 0, after
	// In an hour that the clocks repeat, the wall does not tell whether a slot has been before.
	if change, by := changeBefore(at.In(s.location)); by > 0 && at.Before(change.Add(by)) {
		n, at = s.walk(at, earliest(until, change.Add(by)))
	}
	for at.Before(until) {
		_, change := at.In(s.location).ZoneBounds()
		if change.IsZero() || change.After(until) {
			return n + s.onTheWall(asWall(at.In(s.location)), asWall(until.In(s.location)))
		}
		before := change.Add(-1)
		if before.After(at) {
			n += s.onTheWall(asWall(at.In(s.location)), asWall(before.In(s.location)))
			at = before
		}
		_, by := changeBefore(change.In(s.location))
		more, end := s.walk(at, earliest(until, change.Add(by)))
		n, at = n+more, end
	}
	return n
}

// walk counts slot by slot, and returns where it ended.
func (s Schedule) walk(after, until time.Time) (n int, end time.Time) {
	for at := s.Next(after); within(at, until); at = s.Next(at) {
		n++
	}
	return n, until
}

// changeBefore is the last change of the clocks up to a moment, and by how much they changed.
func changeBefore(local time.Time) (change time.Time, by time.Duration) {
	change, _ = local.ZoneBounds()
	if change.IsZero() {
		return change, 0
	}
	_, now := change.Zone()
	_, before := change.Add(-1).In(local.Location()).Zone()
	return change, time.Duration(max(now-before, before-now)) * time.Second
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
		if s.isOn(at) {
			n += whole
		}
	}
	return n + s.upTo(until)
}

// star is the bit by which the parser marks a field that says nothing of the day.
const star = 1 << 63

func (s Schedule) isOn(day time.Time) bool {
	if s.wall.Month>>uint(day.Month())&1 == 0 {
		return false
	}
	ofMonth, ofWeek := s.wall.Dom>>uint(day.Day())&1 == 1, s.wall.Dow>>uint(day.Weekday())&1 == 1
	if (s.wall.Dom|s.wall.Dow)&star != 0 {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

func (s Schedule) perDay() int {
	return bits.OnesCount64(s.wall.Hour&(1<<24-1)) * bits.OnesCount64(s.wall.Minute&(1<<60-1))
}

// upTo is how many slots a day has up to a time of it.
func (s Schedule) upTo(t time.Time) int {
	if !s.isOn(t) {
		return 0
	}
	hours, minutes := s.wall.Hour&(1<<24-1), s.wall.Minute&(1<<60-1)
	n := bits.OnesCount64(hours&(1<<t.Hour()-1)) * bits.OnesCount64(minutes)
	if hours>>t.Hour()&1 == 1 {
		n += bits.OnesCount64(minutes & (1<<(t.Minute()+1) - 1))
	}
	return n
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
