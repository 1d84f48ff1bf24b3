package slots

import (
	"slices"
	"time"

	"github.com/echomind/sync/internal/calendars"
)

const (
	// Exclude is what a schedule does with the calendar that it names: its slots run on none of the calendar's times.
	Exclude = "exclude"
	// Only has them run on no other.
	Only = "only"

	// OnCalendar begins the reason of slots that a calendar passes over; its name follows, and what it calls the time.
	OnCalendar = "calendar `"

	// mostChanges is how many changes of a calendar and the windows are looked at behind each other; slots before them are too old to be decided by it.
	mostChanges = 400
	// mostClosed is how many times that a calendar closes are passed for the next slot, mostYears how far it may be.
	mostClosed = 1500
	mostYears  = 12
)

// Calendar is the calendar that a schedule names.
type Calendar struct {
	Name  string
	Use   string
	Times *calendars.Calendar
}

// Unreadable is the reason of slots whose calendar cannot be read.
func Unreadable(name string) string { return OnCalendar + name + "` cannot be read" }

// On is the schedule with a calendar; nil = with none.
func (s Schedule) On(c *Calendar) Schedule {
	s.calendar = c
	return s
}

// Closed says why no slot of a moment runs, and until when; empty where they run.
func (c *Calendar) Closed(at time.Time) (why string, until time.Time) {
	if c == nil {
		return "", time.Time{}
	}
	on, name, until := c.Times.At(at)
	switch {
	case on == (c.Use == Only):
		return "", until
	case name == "":
		name = "not on it"
	}
	return OnCalendar + c.Name + "`: " + name, until
}

// changes are the moments up to now between which the calendar, and the windows, say the same of all slots that are not answered. Of slots before since it says nothing.
func (s Schedule) changes(through, now time.Time) (all []time.Time, since time.Time) {
	first := s.times.Next(through)
	if s.calendar == nil && len(s.blackouts) == 0 || first.IsZero() || first.After(now) {
		return nil, time.Time{}
	}
	if s.calendar != nil {
		all, since = s.calendar.Times.Changes(first, now, mostChanges)
	}
	seen := map[*calendars.Calendar]bool{}
	for _, b := range skipping(s.blackouts) {
		if seen[b.Times] {
			continue
		}
		seen[b.Times] = true
		more, from := b.Times.Changes(first, now, mostChanges)
		all, since = append(all, more...), latest(since, from)
	}
	slices.SortFunc(all, time.Time.Compare)
	all = slices.CompactFunc(all, time.Time.Equal)
	if n := len(all) - mostChanges; n > 0 {
		all, since = all[n:], latest(since, all[n])
	}
	return all, since
}

// Next is the first slot behind a moment that no calendar passes over; zero where there is none.
func (s Schedule) Next(after time.Time) time.Time {
	horizon := after.AddDate(mostYears, 0, 0)
	for range mostClosed {
		next := s.times.Next(after)
		if s.calendar == nil || next.IsZero() {
			return next
		}
		opens, _ := s.calendar.Times.Begins(next, s.calendar.Use == Only)
		if opens.Equal(next) {
			return next
		}
		if opens.IsZero() || opens.After(horizon) {
			break
		}
		after = opens.Add(-1)
	}
	return time.Time{}
}

// Reopens is where the next slot of an interval lies whose slot a calendar has passed over: when the calendar lets slots run again, and later
// by a place of the connector's own, in a share of the interval. Zero where the calendar does not pass the slot over; where it closes for years it is asked again in a month.
func (s Schedule) Reopens(id int32, slot time.Time, interval time.Duration, percent int32) time.Time {
	if why, _ := s.calendar.Closed(slot); why == "" {
		return time.Time{}
	}
	begin, until := s.calendar.Times.Begins(slot, s.calendar.Use == Only)
	if begin.IsZero() {
		return slot.AddDate(0, 1, 0)
	}
	room := min(interval/100*time.Duration(percent), until.Sub(begin)/2)
	return begin.Add(time.Duration(Share(id) * float64(room)).Truncate(time.Microsecond))
}
