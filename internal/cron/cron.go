// Package cron tells when a cron schedule comes due in a time zone. Slots are wall-clock times: one that the
// change to daylight saving time leaves out moves to the first moment after the gap, and one that the change back
// repeats counts once, the first time.
package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrSchedule says that a schedule cannot be understood.
var ErrSchedule = errors.New("bad schedule")

// Schedule is a parsed cron expression in a time zone.
type Schedule struct {
	wall     fields
	location *time.Location
}

// Parse reads five fields (minute, hour, day of month, month, day of week; as in crontab(5)) or one of @hourly,
// @daily, @weekly, @monthly, @yearly, and an IANA time zone. It returns ErrSchedule, naming the field and the fix.
func Parse(expression, zone string) (Schedule, error) {
	expression = strings.TrimSpace(expression)
	if strings.HasPrefix(expression, "@every") || strings.Contains(expression, "TZ=") {
		return Schedule{}, fmt.Errorf("%w: schedule_cron %q: write five fields, and the zone into time_zone; "+
			"for an interval set refresh_freq_minutes", ErrSchedule, expression)
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" {
		return Schedule{}, fmt.Errorf("%w: time_zone %q: write an IANA name such as Europe/Berlin", ErrSchedule, zone)
	}
	wall, err := read(expression)
	if err != nil {
		return Schedule{}, fmt.Errorf("%w: schedule_cron %q: %w", ErrSchedule, expression, err)
	}
	return Schedule{wall: wall, location: location}, nil
}

// Next is the first slot after a moment; zero when there is none within five years.
func (s Schedule) Next(after time.Time) time.Time {
	wall := asWall(after.In(s.location))
	for {
		wall = s.wall.next(wall)
		if wall.IsZero() {
			return time.Time{}
		}
		if at := s.instant(wall); at.After(after) {
			return at
		}
	}
}

// Last is the last slot after a moment and not after until; zero when there is none. It looks at few of the slots
// between them, so that a schedule which nobody claimed for months is claimed as fast as any.
func (s Schedule) Last(after, until time.Time) time.Time {
	last, none := s.Next(after), until // there is no slot in (none, until]
	if !within(last, until) {
		return time.Time{}
	}
	for {
		next := s.Next(last)
		if !within(next, until) {
			return last
		}
		last = next
		middle := last.Add(none.Sub(last) / 2)
		if next := s.Next(middle); within(next, until) {
			last = next
		} else {
			none = middle
		}
	}
}

func within(slot, until time.Time) bool { return !slot.IsZero() && !slot.After(until) }

// asWall drops the zone: what the clock on the wall shows, as if it were UTC, where no hour is left out.
func asWall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant is the first moment at which the wall shows this time or, where it never does, the end of the gap.
func (s Schedule) instant(wall time.Time) time.Time {
	_, before := wall.Add(-24 * time.Hour).In(s.location).Zone()
	early := wall.Add(-time.Duration(before) * time.Second).In(s.location)
	if asWall(early).Equal(wall) {
		return early
	}
	_, after := wall.Add(24 * time.Hour).In(s.location).Zone()
	late := wall.Add(-time.Duration(after) * time.Second).In(s.location)
	if asWall(late).Equal(wall) {
		return late
	}
	gapEnd, _ := early.ZoneBounds()
	return gapEnd
}
