// Package cron tells when a cron schedule comes due in a time zone. An expression speaks of the clock on the wall; where that
// clock is put forward or back, the schedule's policies say what becomes of the times that are left out or shown twice.
// docs/conformance/cron.tsv holds schedules with the slots that they must have, in this implementation and in any other.
package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // on hosts without a time zone database
	"unicode/utf8"
)

// ErrSchedule says that a schedule cannot be understood.
var ErrSchedule = errors.New("bad schedule")

// How many characters an expression and a time zone may have: as many as their columns take.
const (
	maxLength = 200
	maxZone   = 64
)

// Gap is what becomes of slots that the clocks leave out when they are put forward.
type Gap string

// Overlap is what becomes of slots that the clocks show twice when they are put back.
type Overlap string

// The policies. The empty one leaves it to the schedule: one of fixed times runs at the first moment after a gap and the first
// time in an overlap; one that is periodic follows elapsed time: it skips what was never shown, and runs both times.
const (
	GapAfter  Gap = "after"  // at the first moment after the gap
	GapSkip   Gap = "skip"   // not at all
	GapBefore Gap = "before" // in the last minute before the gap

	OverlapFirst  Overlap = "first"
	OverlapSecond Overlap = "second"
	OverlapBoth   Overlap = "both"
)

// Spec is a schedule as it is written down.
type Spec struct {
	// Expression has five fields (minute, hour, day of month, month, day of week), or is one of @hourly, @daily, @weekly,
	// @monthly, @yearly.
	Expression string
	// Zone is an IANA time zone.
	Zone string
	// ID is the connector's: what H is spread by.
	ID      int32
	Gap     Gap
	Overlap Overlap
}

// Columns is the Spec that a connector's columns hold.
func Columns(expression, zone string, id int32, gap, overlap *string) Spec {
	s := Spec{Expression: expression, Zone: zone, ID: id}
	if gap != nil {
		s.Gap = Gap(*gap)
	}
	if overlap != nil {
		s.Overlap = Overlap(*overlap)
	}
	return s
}

// Schedule is a parsed Spec.
type Schedule struct {
	wall     fields
	location *time.Location
	gap      Gap
	overlap  Overlap
}

// Parse reads a schedule. It returns ErrSchedule, naming the field, its value and the fix.
func Parse(spec Spec) (Schedule, error) {
	expression := strings.TrimSpace(spec.Expression)
	if n := utf8.RuneCountInString(expression); n > maxLength {
		return Schedule{}, fmt.Errorf("%w: schedule_cron has %d characters; write at most %d", ErrSchedule, n, maxLength)
	}
	if strings.HasPrefix(expression, "@every") || strings.Contains(expression, "TZ=") {
		return Schedule{}, fmt.Errorf("%w: schedule_cron %q: write five fields, and the zone into time_zone; "+
			"for an interval set refresh_freq_minutes", ErrSchedule, expression)
	}
	location, err := zone(spec.Zone)
	if err != nil {
		return Schedule{}, err
	}
	wall, err := read(expression, spec.ID)
	if err != nil {
		return Schedule{}, fmt.Errorf("%w: schedule_cron %q: %w", ErrSchedule, expression, err)
	}
	s := Schedule{wall: wall, location: location, gap: spec.Gap, overlap: spec.Overlap}
	return s, s.setPolicies()
}

func zone(name string) (*time.Location, error) {
	if name != "" && name != "Local" && len(name) <= maxZone {
		if location, err := time.LoadLocation(name); err == nil {
			return location, nil
		}
	}
	if runes := []rune(name); len(runes) > maxZone {
		name = string(runes[:maxZone])
	}
	return nil, fmt.Errorf("%w: time_zone %q: write an IANA name such as Europe/Berlin", ErrSchedule, name)
}

// setPolicies puts in the policies that were left to the schedule, and refuses those that are none.
func (s *Schedule) setPolicies() error {
	switch s.gap {
	case "":
		s.gap = GapAfter
		if s.wall.periodic {
			s.gap = GapSkip
		}
	case GapAfter, GapSkip, GapBefore:
	default:
		return fmt.Errorf("%w: dst_gap %q: write after, skip or before, or leave it null", ErrSchedule, string(s.gap))
	}
	switch s.overlap {
	case "":
		s.overlap = OverlapFirst
		if s.wall.periodic {
			s.overlap = OverlapBoth
		}
	case OverlapFirst, OverlapSecond, OverlapBoth:
	default:
		return fmt.Errorf("%w: dst_overlap %q: write first, second or both, or leave it null", ErrSchedule, string(s.overlap))
	}
	return nil
}

// Next is the first slot after a moment; zero when there is none within searched years.
func (s Schedule) Next(after time.Time) time.Time {
	horizon := after.AddDate(searched, 0, 0)
	for at := after; at.Before(horizon); {
		part := s.stretch(at)
		if slot := part.next(after, horizon); !slot.IsZero() {
			return slot
		}
		if part.end.IsZero() {
			break
		}
		at = part.end
	}
	return time.Time{}
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

// Location is the schedule's time zone.
func (s Schedule) Location() *time.Location { return s.location }
