package calendars

import (
	"fmt"
	"time"
)

// day is a day of the calendar, counted from 1970.
type day int

const (
	minDay day = -25567 // 1900
	maxDay day = 84006  // 2200
)

func dayOf(year int, month time.Month, of int) day {
	return day(time.Date(year, month, of, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

func (d day) date() (int, time.Month, int) { return time.Unix(int64(d)*86400, 0).UTC().Date() }

// weekday counts from Sunday.
func (d day) weekday() int { return ((int(d)+4)%7 + 7) % 7 }

// week counts weeks that begin on a day of the week.
func (d day) week(start int) int {
	n := int(d) + 4 - start
	return (n - ((n%7)+7)%7) / 7
}

// stamp is a time of the wall clock.
type stamp struct {
	day    day
	second int
}

func stampOf(t time.Time) stamp {
	year, month, of := t.Date()
	return stamp{dayOf(year, month, of), t.Hour()*3600 + t.Minute()*60 + t.Second()}
}

// readStamp reads 2026-12-24 and 2026-12-24T12:00.
func readStamp(text string) (s stamp, isDay bool, err error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil {
			if s = stampOf(at); s.day < minDay || s.day >= maxDay {
				return s, false, fmt.Errorf("%s: must be between the years 1900 and 2200", text)
			}
			return s, layout == time.DateOnly, nil
		}
	}
	return s, false, fmt.Errorf("%q: must be a day such as 2026-12-24 or a time such as 2026-12-24T12:00", clip(text))
}

func clip(text string) string {
	if runes := []rune(text); len(runes) > 80 {
		return string(runes[:80]) + "…"
	}
	return text
}
