package slots

import (
	"fmt"
	"time"

	"github.com/echomind/sync/internal/cron"
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
		return cron.Midnight(year, month, day, in), cron.Midnight(year, month, day+1, in)
	case Week:
		day -= (int(at.In(in).Weekday()) + 6) % 7
		return cron.Midnight(year, month, day, in), cron.Midnight(year, month, day+7, in)
	case Month:
		return cron.Midnight(year, month, 1, in), cron.Midnight(year, month+1, 1, in)
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
