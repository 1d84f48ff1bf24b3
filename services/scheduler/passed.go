package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// passed is the verdict of slots that passed before their user's change, as moves.miss_passed wants it.
type passed struct {
	ID        int64          `json:"id"`
	Passed    []slots.Answer `json:"passed,omitempty"`
	connector int32
}

// MissPassed writes the verdict of the cron slots that passed before their user changed the schedule, or switched off or
// deleted the connector: the database cannot count them. What is refused waits, is said once, and is tried again later.
func (s *Scheduler) MissPassed(ctx context.Context) error {
	for ctx.Err() == nil {
		var settled int
		var more bool
		err := deadline.Do(ctx, "scheduler.miss_passed", claimTimeout, func(ctx context.Context) error {
			return s.batch(ctx, func(tx pgx.Tx, how attempt) (err error) {
				more, settled, err = s.missPassedBatch(ctx, tx, how)
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("count the slots that passed: %w", err)
		}
		if settled == 0 || !more {
			return nil
		}
	}
	return nil
}

// missPassedBatch says whether there may be more, and how many of those that it found the next batch does not find: those that have their
// verdict, and those whose verdict is refused.
func (s *Scheduler) missPassedBatch(ctx context.Context, tx pgx.Tx, how attempt) (more bool, settled int, err error) {
	rows, err := s.queries.WithTx(tx).LockPassed(ctx, dbgen.LockPassedParams{
		Batch: int32(s.config.ClaimBatch), Refused: s.unanswered.skipped(time.Now()),
	})
	if err != nil || len(rows) == 0 {
		return false, 0, wrap("lock slots that passed", err)
	}
	names := make([]calendarNamed, len(rows))
	for i, r := range rows {
		if r.CalendarUse != nil && r.CalendarVersion != nil {
			names[i] = calendarNamed{name: r.Calendar, use: *r.CalendarUse, version: r.CalendarVersion}
		}
		names[i].who = blackouts.Who{ID: r.ConnectorID, UserID: r.UserID, Type: r.Type}
	}
	all, err := some(ctx, s.calendars, s.queries.WithTx(tx), names, func(i int, c calendarOf) (passed, int) {
		p := passedOf(rows[i], c)
		return p, len(p.Passed)
	})
	if err != nil {
		return false, 0, err
	}
	set := func(tx pgx.Tx, part []passed) error {
		text, err := json.Marshal(part)
		if err != nil {
			return wrap("write the slots that passed", err)
		}
		n, err := s.queries.WithTx(tx).MissPassed(ctx, text)
		settled += int(n)
		return wrap("write the slots that passed down", err)
	}
	err = write(ctx, tx, how, all, set, func(p passed, err error) error {
		isNew, kept := s.unanswered.add(p.ID, time.Now())
		if isNew {
			s.log.Error("the verdict of slots that passed was refused; they wait, and the others go on", "connector", p.connector,
				"passed_slots", p.ID, "err", err)
		}
		if kept {
			settled++
		}
		return nil
	})
	return len(rows) == s.config.ClaimBatch || len(all) < len(rows), settled, err
}

// passedOf counts. A schedule that cannot be read has had no slot, and a calendar that cannot passes over none.
func passedOf(r dbgen.LockPassedRow, c calendarOf) passed {
	p := passed{ID: r.ID, connector: r.ConnectorID}
	columns := slots.Columns{
		ID: r.ConnectorID, Cron: &r.ScheduleCron, Zone: r.TimeZone, DSTGap: r.DstGap, DSTOverlap: r.DstOverlap, OncePer: r.OncePer,
		Calendar: c.Calendar, Blackouts: c.blackouts,
	}
	if schedule, err := columns.Schedule(); err == nil {
		p.Passed = schedule.GivenUp(slots.State{Through: r.After, Completed: r.Completed}, r.Through, r.Reason)
	}
	return p
}
