package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// plans works out cron schedules until ctx ends. It is a loop of its own: what waits for its plan waits for no tick. Slots that
// passed have theirs, whose verdicts nobody waits for, however many there are.
func (s *Scheduler) plans(ctx context.Context) error {
	return s.whenAsked(ctx, s.planWake, "cron schedules", s.Plan)
}

// passes writes the verdict of slots that passed until ctx ends.
func (s *Scheduler) passes(ctx context.Context) error {
	return s.whenAsked(ctx, s.passWake, "slots that passed", s.MissPassed)
}

// whenAsked does something at once, whenever it is woken, and every pollEvery.
func (s *Scheduler) whenAsked(ctx context.Context, wake <-chan struct{}, what string, do func(context.Context) error) error {
	ticker := time.NewTicker(pollEvery) // finds what somebody held when its plan was asked for
	defer ticker.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("what Postgres did not answer is done later", "what", what, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C:
		}
	}
}

// Plan works out the next slot of the cron schedules that need it, or writes down why there is none. What is due at once wakes
// the tick.
func (s *Scheduler) Plan(ctx context.Context) error {
	for ctx.Err() == nil {
		var b planned
		err := deadline.Do(ctx, "scheduler.plan", claimTimeout, func(ctx context.Context) error {
			return s.batch(ctx, func(tx pgx.Tx, how attempt) (err error) {
				b, err = s.planBatch(ctx, tx, how)
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("plan cron schedules: %w", err)
		}
		if b.due {
			s.wishes.add("")
			signal(s.wake)
		}
		if b.written == 0 || b.found < s.config.ClaimBatch {
			return nil
		}
	}
	return nil
}

// planned is what became of one batch.
type planned struct {
	// written counts those that the next batch does not find: planned, or refused and remembered.
	found, written int
	due            bool // something of it is due now
}

func (s *Scheduler) planBatch(ctx context.Context, tx pgx.Tx, how attempt) (b planned, err error) {
	rows, err := s.queries.WithTx(tx).LockUnplanned(ctx, dbgen.LockUnplannedParams{
		Batch: int32(s.config.ClaimBatch), Refused: s.unplanned.skipped(time.Now()),
	})
	if err != nil || len(rows) == 0 {
		return b, wrap("lock connectors without a plan", err)
	}
	b.found = len(rows)
	names := make([]calendarNamed, len(rows))
	for i, r := range rows {
		names[i] = calendarNamed{name: r.Calendar, use: r.CalendarUse}
	}
	all := make([]plan, len(rows))
	err = s.calendars.each(ctx, s.queries.WithTx(tx), names, func(i int, c calendarOf) {
		all[i] = planOf(rows[i], c)
		b.due = b.due || all[i].NextSyncAt != nil && !all[i].NextSyncAt.After(rows[i].Now)
	})
	if err != nil {
		return b, err
	}
	set := func(tx pgx.Tx, part []plan) error {
		text, err := json.Marshal(part)
		if err != nil {
			return wrap("write the plans", err)
		}
		n, err := s.queries.WithTx(tx).Plan(ctx, text)
		b.written += int(n)
		return wrap("write the plans down", err)
	}
	err = write(ctx, tx, how, all, set, func(p plan, err error) error {
		// Why there is no plan is for its user to see; where the row takes no word at all, it waits.
		why := []plan{{ID: p.ID, Problem: "the schedule cannot be planned: " + err.Error()}}
		problem := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return set(tx, why) })
		if problem != nil && !postgres.Refused(problem) {
			return problem
		}
		isNew, kept := true, false
		if problem != nil {
			isNew, kept = s.unplanned.add(p.ID, time.Now())
		}
		if isNew {
			s.log.Error("the plan of a connector was refused; the others go on", "connector", p.ID, "err", err)
		}
		if kept {
			b.written++
		}
		return nil
	})
	return b, err
}

// plan is the next slot of one connector, or why there is none, as moves.plan wants it.
type plan struct {
	ID             int32      `json:"id"`
	NextSyncAt     *time.Time `json:"next_sync_at,omitempty"`
	DueReason      string     `json:"due_reason,omitempty"`
	SlotAt         *time.Time `json:"slot_at,omitempty"`
	PlannedThrough *time.Time `json:"planned_through,omitempty"`
	Problem        string     `json:"problem,omitempty"`
	// Passed are slots that no run answers.
	Passed []slots.Answer `json:"passed,omitempty"`
	// Unmet is why its condition passes it over; UnmetSlot the slot, unless there is none, or it is in Passed.
	Unmet     string     `json:"unmet,omitempty"`
	UnmetSlot *time.Time `json:"unmet_slot,omitempty"`
}

func planOf(r dbgen.LockUnplannedRow, c calendarOf) plan {
	p := plan{ID: r.ID, PlannedThrough: r.PlannedThrough}
	if r.ScheduleCron == nil {
		return p
	}
	columns := columnsOfUnplanned(r)
	columns.Calendar = c.Calendar
	schedule, err := columns.Schedule()
	if err = cmp.Or(err, c.err); err != nil {
		p.Problem = err.Error()
		return p
	}
	if p.PlannedThrough == nil {
		p.PlannedThrough = &r.Now
	}
	if r.RunAtOnce && r.LastSyncAt == nil && r.ClaimedAt == nil && r.DueReason == nil { // else its first run was cancelled
		p.NextSyncAt, p.DueReason = &r.Now, "new"
		return p
	}
	columns.Through = p.PlannedThrough
	return *planOn(r.ID, *r.ScheduleCron, schedule.Plan(columns.State(), r.Now))
}

// planOn writes down what was worked out of a cron schedule.
func planOn(id int32, expression string, next slots.Plan) *plan {
	p := &plan{ID: id, Passed: next.Passed, PlannedThrough: &next.Through}
	if next.Next.IsZero() || !known(next.Next) {
		p.Problem = fmt.Sprintf("schedule_cron %q never comes due", expression)
		return p
	}
	p.NextSyncAt, p.SlotAt, p.DueReason = &next.Next, &next.Next, "schedule"
	return p
}
