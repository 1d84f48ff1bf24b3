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
	// Through is up to where slots are answered; of a claim without a slot.
	Through *time.Time `json:"through,omitempty"`
}

// slotOf says what becomes of the slots of a connector that is due. Where none of them runs, instead is when it is due next: where its sync
// is wanted all the same, as long as it has been.
func slotOf(r dbgen.LockDueRow) (s slot, instead *plan) {
	if r.SlotAt == nil || !known(*r.SlotAt) {
		return beforehand(r), nil
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
	instead = &plan{ID: r.ID, Passed: next.Passed} // moves.plan knows when an interval's next slot is
	if r.ScheduleCron != nil {
		instead = planOn(r.ID, *r.ScheduleCron, next)
	}
	if r.Wanted != "" {
		instead.NextSyncAt, instead.DueReason, instead.SlotAt, instead.Problem = &r.NextSyncAt, r.Wanted, nil, ""
	}
	return slot{}, instead
}

// beforehand answers the slots of the sync before, of which a claim without a slot would take the moments away.
func beforehand(r dbgen.LockDueRow) slot {
	if r.ScheduleCron == nil || r.PlannedThrough == nil || r.ClaimedAt == nil || r.DueReason != "manual" && r.DueReason != "changed" {
		return slot{}
	}
	columns := columnsOfDue(r)
	schedule, err := columns.Schedule()
	if err != nil {
		return slot{} // its next plan says so
	}
	next := schedule.Plan(columns.State(), r.Now)
	if len(next.Passed) == 0 {
		return slot{}
	}
	return slot{Passed: next.Passed, Through: &next.Through}
}

func columnsOfDue(r dbgen.LockDueRow) slots.Columns {
	return slots.Columns{
		ID: r.ID, Cron: r.ScheduleCron, Zone: r.TimeZone, DSTGap: r.DstGap, DSTOverlap: r.DstOverlap, Deadline: r.DeadlineMinutes,
		Overlap: r.Overlap, OncePer: r.OncePer, CatchUp: r.CatchUp, Most: r.CatchUpMost, Window: r.CatchUpMinutes,
		Through: r.PlannedThrough, ClaimedAt: r.ClaimedAt, SyncedAt: ended(r.Status, r.LastSyncAt, r.SlotsThrough), SyncedFor: r.SyncedFor,
	}
}

func columnsOfUnplanned(r dbgen.LockUnplannedRow) slots.Columns {
	return slots.Columns{
		ID: r.ID, Cron: r.ScheduleCron, Zone: r.TimeZone, DSTGap: r.DstGap, DSTOverlap: r.DstOverlap, Deadline: r.DeadlineMinutes,
		Overlap: r.Overlap, OncePer: r.OncePer, CatchUp: r.CatchUp, Most: r.CatchUpMost, Window: r.CatchUpMinutes,
		Through: r.PlannedThrough, ClaimedAt: r.ClaimedAt, SyncedAt: ended(r.Status, r.LastSyncAt, r.SlotsThrough), SyncedFor: r.SyncedFor,
	}
}

// ended is when the last sync was over: of one that failed, up to where moves.failed has its slots answered.
func ended(status string, synced, through *time.Time) *time.Time {
	if status == "ERROR" && through != nil && (synced == nil || through.After(*synced)) {
		return through
	}
	return synced
}

// known says whether a moment is one that connectors may have: a schedule that goes beyond has no next slot.
func known(at time.Time) bool { return at.Year() >= 2000 && at.Year() < 9999 }
