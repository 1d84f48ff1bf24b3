// Package clock says times and durations the way people say them.
package clock

import (
	"fmt"
	"strings"
	"time"
)

// At is a moment in local time, as short as the distance from now allows.
func At(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.Year() == now.Year() && t.YearDay() == now.YearDay():
		return t.Format("15:04:05")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// InZone is At with the zone that it is in, for sentences: who reads them may be somewhere else.
func InZone(t, now time.Time) string { return At(t, now) + t.Local().Format(" MST") }

// Optional is At, and "-" for nil.
func Optional(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return At(*t, now)
}

// Ago says how long before now a moment was.
func Ago(t, now time.Time) string {
	if !t.Before(now) {
		return "just now"
	}
	return Span(now.Sub(t)) + " ago"
}

// Until says when a moment will be: the time and how far off it is.
func Until(t, now time.Time) string {
	if !t.After(now) {
		return "now"
	}
	return fmt.Sprintf("at %s (in %s)", InZone(t, now), Span(t.Sub(now)))
}

// Wait says who asked for a wait, and until when it is.
func Wait(asked string, until, now time.Time) string { return asked + " until " + At(until, now) }

// WaitInZone is Wait with the zone.
func WaitInZone(asked string, until, now time.Time) string {
	return asked + " until " + InZone(until, now)
}

// putOffFor is for how long a connector must have been put off for that to be worth saying.
const putOffFor = time.Hour

// PutOff says since when a connector is put off and comes no further, to be put behind what it waits for; "" where that is not long.
func PutOff(since *time.Time, now time.Time) string {
	if since == nil || now.Sub(*since) < putOffFor {
		return ""
	}
	return ", put off since " + At(*since, now)
}

// Span is a duration in at most two units; a negative one is zero.
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return two(d.Round(time.Second), time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return two(d.Round(time.Minute), time.Hour, "h", time.Minute, "m")
	}
	return two(d.Round(time.Hour), 24*time.Hour, "d", time.Hour, "h")
}

func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	n, rest := d/large, d%large/small
	switch {
	case n == 0:
		return fmt.Sprintf("%d%s", rest, smallName)
	case rest == 0:
		return fmt.Sprintf("%d%s", n, largeName)
	}
	return fmt.Sprintf("%d%s%d%s", n, largeName, rest, smallName)
}

// Progress says how far a job has come: how much is done, of how much, and in words; "" where it says nothing.
func Progress(done, total *int64, line *string) string {
	var said []string
	switch {
	case done != nil && total != nil:
		said = append(said, fmt.Sprintf("%d of %d", *done, *total))
	case done != nil:
		said = append(said, fmt.Sprintf("%d done", *done))
	}
	if line != nil {
		said = append(said, *line)
	}
	return strings.Join(said, ": ")
}
