package scheduler

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/cron"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// passed is the verdict of slots that passed before their user's change, as moves.miss_passed wants it.
type passed struct {
	ID int64 `json:"id"`
	slot
}

// MissPassed writes the verdict of the cron slots that passed before their user changed the schedule, or switched off or
// deleted the connector: the database cannot count them.
func (s *Scheduler) MissPassed(ctx context.Context) error {
	for ctx.Err() == nil {
		found := 0
		err := deadline.Do(ctx, "scheduler.miss_passed", claimTimeout, func(ctx context.Context) error {
			return postgres.Tx(ctx, s.servers.Pool, func(tx pgx.Tx) (err error) {
				found, err = s.missPassedBatch(ctx, s.queries.WithTx(tx))
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("count the slots that passed: %w", err)
		}
		if found < s.config.ClaimBatch {
			return nil
		}
	}
	return nil
}

func (s *Scheduler) missPassedBatch(ctx context.Context, q *dbgen.Queries) (found int, err error) {
	rows, err := q.LockPassed(ctx, int32(s.config.ClaimBatch))
	if err != nil || len(rows) == 0 {
		return 0, wrap("lock slots that passed", err)
	}
	all := make([]passed, len(rows))
	for i, r := range rows {
		all[i] = passedOf(r)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return 0, wrap("write the slots that passed", err)
	}
	_, err = q.MissPassed(ctx, text)
	return len(rows), wrap("write the slots that passed down", err)
}

// passedOf counts. A schedule that cannot be read has had no slot.
func passedOf(r dbgen.LockPassedRow) passed {
	p := passed{ID: r.ID}
	schedule, err := cron.Parse(r.ScheduleCron, r.TimeZone)
	if err != nil {
		return p
	}
	last := schedule.Last(r.After, r.Through)
	if last.IsZero() {
		return p
	}
	first := schedule.Next(r.After)
	p.slot = slot{MissedFirst: &first, MissedLast: &last, MissedCount: int32(schedule.Count(r.After, last))}
	return p
}
