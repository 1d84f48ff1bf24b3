package slots

import (
	"fmt"
	"time"
)

// Period is a stretch of the calendar in which one completed sync is enough; empty = none.
type Period string

// The periods. A week begins on Monday.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// around is the period that a moment lies in: from begin to before end. Both are zero where there is none.
func (p Period) around(at time.Time, in *time.Location) (begin, end time.Time) {
	if at.IsZero() {
		return begin, end
	}
	year, month, day := at.In(in).Date()
	switch p {
	case Day:
		return midnight(year, month, day, in), midnight(year, month, day+1, in)
	case Week:
		day -= (int(at.In(in).Weekday()) + 6) % 7
		return midnight(year, month, day, in), midnight(year, month, day+7, in)
	case Month:
		return midnight(year, month, 1, in), midnight(year, month+1, 1, in)
	}
	return begin, end
}

// name is how people call the period that begins at a moment.
func (p Period) name(begin time.Time, in *time.Location) string {
	local := begin.In(in)
	switch p {
	case Week:
		year, week := local.ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	case Month:
		return local.Format("2006-01")
	}
	return local.Format(time.DateOnly)
}

// midnight is the first moment of a day, also where the clocks leave its beginning out, or show it twice.
func midnight(year int, month time.Month, day int, in *time.Location) time.Time {
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
