package cron

import "time"

// Midnight is the first moment of a day, also where the clocks leave its beginning out, or show it twice.
func Midnight(year int, month time.Month, day int, in *time.Location) time.Time {
	noon := time.Date(year, month, day, 12, 0, 0, 0, in)
	year, month, day = noon.Date()
	isDay := func(t time.Time) bool { y, m, d := t.In(in).Date(); return y == year && m == month && d == day }
	// The day has begun by one of these: it is the earliest moment of it at a full hour of the clocks, or at their change.
	first := time.Date(year, month, day, 0, 0, 0, 0, in)
	begin, end := first.ZoneBounds()
	if !isDay(first) && isDay(end) { // it was left out, and shown is the evening before
		return end
	}
	if !begin.IsZero() && isDay(begin) && begin.Before(first) { // left out, and shown is what comes behind
		first = begin
	}
	if !begin.IsZero() {
		_, now := first.Zone()
		_, before := begin.Add(-1).Zone()
		if twice := first.Add(time.Duration(now-before) * time.Second); twice.Before(begin) && isDay(twice) {
			return twice
		}
	}
	return first
}
