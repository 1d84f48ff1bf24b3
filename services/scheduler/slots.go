package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/cron"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// slot is the due time that a claim answers, with the earlier ones that it cannot.
type slot struct {
	at     time.Time
	missed struct {
		first, last time.Time
		count       int32
	}
}

// slotOf takes the latest passed slot of a cron schedule; the earlier ones are missed. An interval has one slot.
func slotOf(r dbgen.LockDueRow) slot {
	var s slot
	if r.SlotAt == nil {
		return s
	}
	s.at = *r.SlotAt
	if r.ScheduleCron == nil {
		return s
	}
	schedule, err := cron.Parse(*r.ScheduleCron, r.TimeZone)
	if err != nil {
		return s // it was planned under an earlier time zone database; the slot stands as planned
	}
	latest := schedule.Last(s.at, r.Now)
	if latest.IsZero() {
		return s
	}
	s.missed.first, s.missed.last = s.at, s.at
	if before := schedule.Last(s.at, latest.Add(-1)); !before.IsZero() {
		s.missed.last = before
	}
	s.missed.count = int32(1 + schedule.Count(s.at, s.missed.last))
	s.at = latest
	return s
}

// plan works out the next slot of the cron schedules that need it, or writes down why there is none.
func (s *Scheduler) plan(ctx context.Context) error {
	for full := true; full; {
		err := deadline.Do(ctx, "scheduler.plan", claimTimeout, func(ctx context.Context) error {
			return postgres.Tx(ctx, s.servers.Pool, func(tx pgx.Tx) error {
				q := s.queries.WithTx(tx)
				rows, err := q.LockUnplanned(ctx, dbgen.LockUnplannedParams{Batch: int32(s.config.ClaimBatch)})
				if err != nil {
					return err
				}
				full = len(rows) == s.config.ClaimBatch
				for _, r := range rows {
					if err := q.Plan(ctx, planOf(r)); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err != nil {
			return fmt.Errorf("plan cron schedules: %w", err)
		}
	}
	return nil
}

func planOf(r dbgen.LockUnplannedRow) dbgen.PlanParams {
	p := dbgen.PlanParams{ID: r.ID, PlannedThrough: r.PlannedThrough}
	if r.ScheduleCron == nil {
		return p
	}
	schedule, err := cron.Parse(*r.ScheduleCron, r.TimeZone)
	if err != nil {
		problem := err.Error()
		p.Problem = &problem
		return p
	}
	reason := "schedule"
	if p.PlannedThrough == nil {
		p.PlannedThrough = &r.Now
		if r.LastSyncAt == nil {
			reason = "new"
			p.NextSyncAt, p.DueReason = &r.Now, &reason
			return p
		}
	}
	next := schedule.Next(*p.PlannedThrough)
	if next.IsZero() {
		problem := fmt.Sprintf("schedule_cron %q never comes due", *r.ScheduleCron)
		p.Problem = &problem
		return p
	}
	p.NextSyncAt, p.SlotAt, p.DueReason = &next, &next, &reason
	return p
}
