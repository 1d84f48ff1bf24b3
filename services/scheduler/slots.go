package scheduler

import (
	"time"

	"github.com/echomind/sync/internal/cron"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// slot is the due time that a claim answers, with the earlier ones that it cannot.
type slot struct {
	At          *time.Time `json:"slot,omitempty"`
	MissedFirst *time.Time `json:"missed_first,omitempty"`
	MissedLast  *time.Time `json:"missed_last,omitempty"`
	MissedCount int32      `json:"missed_count,omitempty"`
}

// slotOf takes the latest passed slot of a cron schedule; the earlier ones are missed. An interval has one slot.
func slotOf(r dbgen.LockDueRow) slot {
	if r.SlotAt == nil || !known(*r.SlotAt) {
		return slot{}
	}
	planned := *r.SlotAt
	if r.ScheduleCron == nil {
		return slot{At: &planned}
	}
	schedule, err := cron.Parse(cron.Columns(*r.ScheduleCron, r.TimeZone, r.ID, r.DstGap, r.DstOverlap))
	if err != nil {
		return slot{At: &planned} // it was planned under an earlier time zone database; the slot stands as planned
	}
	latest := schedule.Last(planned, r.Now)
	if latest.IsZero() {
		return slot{At: &planned}
	}
	last := planned
	if before := schedule.Last(planned, latest.Add(-1)); !before.IsZero() {
		last = before
	}
	return slot{At: &latest, MissedFirst: &planned, MissedLast: &last, MissedCount: int32(1 + schedule.Count(planned, last))}
}

// known says whether a moment is one that connectors may have: a schedule that goes beyond has no next slot.
func known(at time.Time) bool { return at.Year() >= 2000 && at.Year() < 9999 }
