package cron

import (
	"math/bits"
	"time"
)

// Count is the number of slots after a moment and not after until. It costs some nanoseconds a day, so that the slots of
// decades are counted in a few milliseconds: between two changes of the clocks the slots of a day are multiplied, not stepped
// through.
func (s Schedule) Count(after, until time.Time) (n int) {
	for at := after; after.Before(until); {
		part := s.stretch(at)
		n += part.count(after, until)
		if part.end.IsZero() || part.end.After(until) {
			break
		}
		at, after = part.end, part.end.Add(-1)
	}
	return n
}

// count is the number of slots between two times of the wall clock, where the clocks do not change.
func (f *fields) count(after, until time.Time) int {
	if !after.Before(until) {
		return 0
	}
	day := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	first, last := day(after), day(until)
	n, whole := -f.upTo(after), f.perDay()
	for at := first; at.Before(last); at = at.Add(24 * time.Hour) {
		if f.isOn(at) {
			n += whole
		}
	}
	return n + f.upTo(until)
}

func (f *fields) perDay() int {
	return bits.OnesCount64(f.hour&(1<<24-1)) * bits.OnesCount64(f.minute&(1<<60-1))
}

// upTo is the number of slots of a day up to a time of it.
func (f *fields) upTo(t time.Time) int {
	if !f.isOn(t) {
		return 0
	}
	hours, minutes := f.hour&(1<<24-1), f.minute&(1<<60-1)
	n := bits.OnesCount64(hours&(1<<t.Hour()-1)) * bits.OnesCount64(minutes)
	if hours>>t.Hour()&1 == 1 {
		n += bits.OnesCount64(minutes & (1<<(t.Minute()+1) - 1))
	}
	return n
}
