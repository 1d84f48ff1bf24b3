package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// days are those of an expression that depend on the month: L, W and #. Their meaning is Quartz's (the documentation of
// org.quartz.CronExpression, at quartz-scheduler.org), with the numbers of crontab(5): 0 and 7 are Sunday, as in Spring's
// CronExpression. Lists of them are accepted, too, which Quartz refuses; a month without such a day (31W, L-29) has no slot.
type days struct {
	last        uint32   // L, L-3: bit n is the n-th day before the month's last
	lastWeekday uint32   // LW, L-3W: the weekday nearest to such a day
	nearest     uint32   // 15W: bit n is the weekday nearest to day n
	nth         [7]uint8 // 5#3, 5L: bit n is the n-th of its kind in the month; bit 0 the last
}

func (d *days) areOfMonth() bool { return d.last|d.lastWeekday|d.nearest != 0 }

// hasDayOfMonth says whether L or W name a day.
func (d *days) hasDayOfMonth(day time.Time) bool {
	length := daysIn(day)
	if d.last>>(length-day.Day())&1 == 1 {
		return true
	}
	if d.lastWeekday|d.nearest == 0 || isWeekend(day.Weekday()) {
		return false
	}
	for near := max(1, day.Day()-2); near <= min(length, day.Day()+2); near++ { // no weekday is farther away
		named := d.nearest>>near&1 == 1 || d.lastWeekday>>(length-near)&1 == 1
		if named && weekdayNear(day, near, length) == day.Day() {
			return true
		}
	}
	return false
}

// hasDayOfWeek says whether # or L name a day.
func (d *days) hasDayOfWeek(day time.Time) bool {
	nth := d.nth[day.Weekday()]
	return nth>>((day.Day()+6)/7)&1 == 1 || nth&1 == 1 && day.Day()+7 > daysIn(day)
}

// weekdayNear is the day from Monday to Friday that is nearest to a day of a month, within the month.
func weekdayNear(of time.Time, day, length int) int {
	switch time.Weekday((int(of.Weekday()) + day - of.Day() + 35) % 7) {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == length {
			return day - 2
		}
		return day + 1
	}
	return day
}

func isWeekend(d time.Weekday) bool { return d == time.Saturday || d == time.Sunday }

func daysIn(day time.Time) int {
	return time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// readDayOfMonth reads L, L-3, LW, L-3W and 15W; known is false for anything else.
func (d *days) readDayOfMonth(f field, written string) (known bool, err error) {
	upper := strings.ToUpper(written)
	near, isNear := strings.CutSuffix(upper, "W")
	if back, isLast := strings.CutPrefix(near, "L"); isLast {
		n := 0
		if back != "" {
			if n, err = strconv.Atoi(strings.TrimPrefix(back, "-")); err != nil || back[0] != '-' || n < 0 || n > 30 {
				return true, fmt.Errorf("%q is no day before the last; write L, L-1 to L-30, LW or L-3W", written)
			}
		}
		if isNear {
			d.lastWeekday |= 1 << n
		} else {
			d.last |= 1 << n
		}
		return true, nil
	}
	if !isNear {
		return false, nil
	}
	n, err := strconv.Atoi(near)
	if err != nil || n < f.min || n > f.max {
		return true, fmt.Errorf("%q names no weekday; write one day before the W, such as 15W, or LW", written)
	}
	d.nearest |= 1 << n
	return true, nil
}

// readDayOfWeek reads 5L and 5#3, friL and fri#3; known is false for anything else. In Quartz L alone is Saturday, the last day
// of its week.
func (d *days) readDayOfWeek(f field, written string) (known bool, err error) {
	name, which, isNth := strings.Cut(written, "#")
	n := 0
	switch upper := strings.ToUpper(written); {
	case isNth:
		if n, err = strconv.Atoi(which); err != nil || n < 1 || n > 5 {
			return true, fmt.Errorf("%q is no number from 1 to 5 behind #; write such as 5#3 for the third Friday", which)
		}
	case upper == "L":
		return false, nil
	case strings.HasSuffix(upper, "L"):
		name = written[:len(written)-1]
	default:
		return false, nil
	}
	day, err := f.value(name)
	if err != nil {
		return true, err
	}
	d.nth[day%7] |= 1 << n
	return true, nil
}
