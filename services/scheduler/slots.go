package scheduler

import (
	"time"

	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// slot is the due time that a claim answers, with those that no run answers, as moves.claim wants it.
type slot struct {
	At     *time.Time     `json:"slot,omitempty"`
	Passed []slots.Answer `json:"passed,omitempty"`
}

// slotOf says what becomes of the slots of a connector that is due. Where none of them runs, instead is when it is due next.
func slotOf(r dbgen.LockDueRow) (s slot, instead *plan) {
	if r.SlotAt == nil || !known(*r.SlotAt) {
		return slot{}, nil
	}
	planned := *r.SlotAt
	columns := columnsOfDue(r)
	schedule := slots.Interval(planned, columns.Policies())
	if r.ScheduleCron != nil {
		var err error
		if schedule, err = columns.Schedule(); err != nil {
			return slot{At: &planned}, nil // it was planned under an earlier time zone database; the slot stands as planned
		}
	}
	state := columns.State()
	claim := schedule.Claim(planned, state, r.Now)
	if !claim.Run.IsZero() {
		return slot{At: &claim.Run, Passed: claim.Passed}, nil
	}
	state.Through = planned.Add(-1)
	next := schedule.Plan(state, r.Now)
	if r.ScheduleCron == nil { // moves.plan knows when an interval's next slot is
		return slot{}, &plan{ID: r.ID, Passed: next.Passed}
	}
	return slot{}, planOn(r.ID, *r.ScheduleCron, next)
}

func columnsOfDue(r dbgen.LockDueRow) slots.Columns {
	return slots.Columns{
		ID: r.ID, Cron: r.ScheduleCron, Zone: r.TimeZone, DSTGap: r.DstGap, DSTOverlap: r.DstOverlap, Deadline: r.DeadlineMinutes,
		Overlap: r.Overlap, OncePer: r.OncePer, CatchUp: r.CatchUp, Most: r.CatchUpMost, Window: r.CatchUpMinutes,
		ClaimedAt: r.ClaimedAt, SyncedAt: r.LastSyncAt, SyncedFor: r.SyncedFor,
	}
}

func columnsOfUnplanned(r dbgen.LockUnplannedRow) slots.Columns {
	return slots.Columns{
		ID: r.ID, Cron: r.ScheduleCron, Zone: r.TimeZone, DSTGap: r.DstGap, DSTOverlap: r.DstOverlap, Deadline: r.DeadlineMinutes,
		Overlap: r.Overlap, OncePer: r.OncePer, CatchUp: r.CatchUp, Most: r.CatchUpMost, Window: r.CatchUpMinutes,
		Through: r.PlannedThrough, ClaimedAt: r.ClaimedAt, SyncedAt: r.LastSyncAt, SyncedFor: r.SyncedFor,
	}
}

// known says whether a moment is one that connectors may have: a schedule that goes beyond has no next slot.
func known(at time.Time) bool { return at.Year() >= 2000 && at.Year() < 9999 }
