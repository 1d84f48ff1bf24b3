package scheduler

import (
	"time"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// slot is the due time that a claim answers, with the slots that no run answers, as moves.claim wants them.
type slot struct {
	At     *time.Time     `json:"slot,omitempty"`
	Passed []slots.Answer `json:"passed,omitempty"`
	// Through is up to where slots of a cron schedule are answered.
	Through *time.Time `json:"through,omitempty"`
	// next works out when the slot behind these comes; null where that is not known.
	next func() time.Time
}

// slotOf says what becomes of the slots of a connector that is due. Where none of them runs, instead is when the connector
// is due next; where its sync is wanted all the same, it stays due.
func slotOf(r dbgen.LockDueRow, c calendarOf) (s slot, instead *plan) {
	if r.SlotAt == nil || !known(*r.SlotAt) {
		return beforehand(r, c), nil
	}
	planned := *r.SlotAt
	columns := columnsOfDue(r)
	columns.Calendar, columns.Blackouts = c.Calendar, c.blackouts
	if c.err != nil {
		return slot{}, orWanted(r, unreadable(r, columns, c.err))
	}
	schedule := columns.IntervalAt(planned)
	if r.ScheduleCron != nil {
		var err error
		if schedule, err = columns.Schedule(); err != nil {
			return slot{At: &planned, Through: &planned}, nil // it was planned under an earlier time zone database; the slot stands as planned
		}
	}
	claim := schedule.Claim(planned, columns.State(), r.Now)
	if !claim.Run.IsZero() {
		s = slot{At: &claim.Run, Passed: claim.Passed}
		switch {
		case r.ScheduleCron != nil:
			s.Through, s.next = &claim.Through, func() time.Time { return schedule.Next(r.Now) }
		case r.RefreshFreqMinutes != nil:
			s.next = func() time.Time { return r.Now.Add(time.Duration(*r.RefreshFreqMinutes) * time.Minute) }
		}
		return s, nil
	}
	next := schedule.Plan(columns.State(), r.Now)
	instead = &plan{ID: r.ID, Passed: next.Passed} // moves.plan knows when an interval's next slot is
	if r.ScheduleCron != nil {
		instead = planOn(r.ID, *r.ScheduleCron, next)
	} else if r.RefreshFreqMinutes != nil {
		every := time.Duration(*r.RefreshFreqMinutes) * time.Minute
		if at := schedule.Reopens(r.ID, planned, every, r.SpreadPercent); !at.IsZero() && known(at) {
			instead.NextSyncAt, instead.SlotAt, instead.DueReason = &at, &at, "schedule"
		} else if h, is := schedule.SkippedBy(planned); is {
			instead.NextSyncAt, instead.SlotAt, instead.DueReason, instead.held = &h.Until, &h.Until, "schedule", heldBy(r.ID, false, h)
		}
	}
	return slot{}, orWanted(r, instead)
}

// orWanted leaves a connector due if its sync is wanted, whatever its schedule says.
func orWanted(r dbgen.LockDueRow, instead *plan) *plan {
	if r.Wanted != "" {
		instead.NextSyncAt, instead.DueReason, instead.SlotAt, instead.Problem, instead.Bad, instead.held = &r.NextSyncAt, r.Wanted, nil, "", false, nil
	}
	return instead
}

// unreadable is what becomes of slots whose calendar cannot be read: they are missed, and of a cron schedule none comes until the calendar or
// the schedule is changed.
func unreadable(r dbgen.LockDueRow, columns slots.Columns, problem error) *plan {
	p := &plan{ID: r.ID, Problem: problem.Error()}
	schedule := columns.IntervalAt(*r.SlotAt)
	if r.ScheduleCron != nil {
		var err error
		if schedule, err = columns.Schedule(); err != nil {
			p.isBad(err.Error())
			return p
		}
	}
	state := columns.State()
	if r.ScheduleCron == nil || state.Through.IsZero() || !state.Through.Before(*r.SlotAt) {
		state.Through = r.SlotAt.Add(-1)
	}
	p.Passed = schedule.GivenUp(state, r.Now, slots.Unreadable(*r.Calendar))
	if n := len(p.Passed); n > 0 && r.ScheduleCron != nil {
		p.PlannedThrough = &p.Passed[n-1].Last
	}
	return p
}

// beforehand answers the slots of the sync before, because a claim without a slot would take their moments away. While that sync is not
// over, it answers the slots that have come by now.
func beforehand(r dbgen.LockDueRow, c calendarOf) slot {
	if r.ScheduleCron == nil || r.PlannedThrough == nil || r.ClaimedAt == nil || r.DueReason != "manual" && r.DueReason != "changed" {
		return slot{}
	}
	columns := columnsOfDue(r)
	if r.OverAt == nil {
		columns.OverAt, columns.ClaimedFor = &r.Now, nil
	}
	columns.Calendar, columns.Blackouts = c.Calendar, c.blackouts
	schedule, err := columns.Schedule()
	if err != nil || c.err != nil {
		return slot{} // its next plan says so
	}
	next := schedule.Plan(columns.State(), r.Now)
	if len(next.Passed) == 0 {
		return slot{}
	}
	return slot{Passed: next.Passed, Through: &next.Through}
}

// namedBy is what is asked about the calendar and the windows of a connector that is due.
func namedBy(r dbgen.LockDueRow) calendarNamed {
	return calendarNamed{name: r.Calendar, use: r.CalendarUse, who: blackouts.Who{ID: r.ID, UserID: r.UserID, Type: r.Type}}
}

// longest is for a slot that may wait for others, where nothing is caught up.
const longest int32 = 525600

func columnsOfDue(r dbgen.LockDueRow) slots.Columns {
	if r.Follows && r.DeadlineMinutes == nil && r.CatchUp == slots.CatchUpNone {
		most := longest
		r.DeadlineMinutes = &most
	}
	return slots.Columns{
		ID: r.ID, Cron: r.ScheduleCron, Zone: r.TimeZone, DSTGap: r.DstGap, DSTOverlap: r.DstOverlap, Deadline: r.DeadlineMinutes,
		Overlap: r.Overlap, OncePer: r.OncePer, CatchUp: r.CatchUp, Most: r.CatchUpMost, Window: r.CatchUpMinutes,
		Through: r.PlannedThrough, ClaimedAt: r.ClaimedAt, OverAt: r.OverAt, ClaimedFor: r.ClaimedFor, SyncedFor: r.SyncedFor,
	}
}

func columnsOfUnplanned(r dbgen.LockUnplannedRow) slots.Columns {
	return slots.Columns{
		ID: r.ID, Cron: r.ScheduleCron, Zone: r.TimeZone, DSTGap: r.DstGap, DSTOverlap: r.DstOverlap, Deadline: r.DeadlineMinutes,
		Overlap: r.Overlap, OncePer: r.OncePer, CatchUp: r.CatchUp, Most: r.CatchUpMost, Window: r.CatchUpMinutes,
		Through: r.PlannedThrough, ClaimedAt: r.ClaimedAt, OverAt: r.OverAt, ClaimedFor: r.ClaimedFor, SyncedFor: r.SyncedFor,
	}
}

// known says whether a connector may be due at a moment. A schedule that goes beyond has no next slot.
func known(at time.Time) bool { return at.Year() >= 2000 && at.Year() < 9999 }
