// Package cron computes when a cron schedule comes due in a time zone. An expression names times of the wall clock; where the
// clocks are put forward or back, the schedule's policies decide about times that do not occur or occur twice.
// docs/conformance/cron.tsv lists schedules with their slots, for this implementation and any other.
package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // on hosts without a time zone database
	"unicode/utf8"

	"github.com/echomind/sync/internal/timezone"
)

// ErrSchedule says that a schedule cannot be understood.
var ErrSchedule = errors.New("bad schedule")

// The largest numbers of characters of an expression and a time zone: those of their columns.
const (
	maxLength = 200
)

// Gap is the policy for slots that do not occur because the clocks are put forward.
type Gap string

// Overlap is the policy for slots that occur twice because the clocks are put back.
type Overlap string

// The policies. With the empty one the schedule decides: fixed times run at the first moment after a gap and at the first time
// in an overlap; periodic ones follow elapsed time: they skip the gap, and run both times.
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
	// ID is the connector's: H is spread by it.
	ID      int32
	Gap     Gap
	Overlap Overlap
}

// Columns is the Spec in a connector's columns.
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
	if location, err := timezone.Load(name); err == nil {
		return location, nil
	}
	if runes := []rune(name); len(runes) > timezone.MaxLength {
		name = string(runes[:timezone.MaxLength])
	}
	return nil, fmt.Errorf("%w: time_zone %q: write an IANA name such as Europe/Berlin", ErrSchedule, name)
}

// setPolicies replaces empty policies by the schedule's own, and refuses unknown ones.
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

// Next is the first slot after a moment; zero when there is none within the searched years.
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

// Last is the last slot after a moment and not after until; zero when there is none. It looks at few of the slots between them,
// so that a schedule that was not claimed for months is claimed as fast as any.
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
