package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// plans works out cron schedules until ctx ends. It is a loop of its own: a connector that waits for its plan waits for no tick.
// Slots that passed have another loop, passes: nobody waits for their verdicts, however many there are.
func (s *Scheduler) plans(ctx context.Context) error {
	return s.whenAsked(ctx, s.planWake, "cron schedules", s.Plan)
}

// passes writes the verdict of slots that passed until ctx ends.
func (s *Scheduler) passes(ctx context.Context) error {
	return s.whenAsked(ctx, s.passWake, "slots that passed", s.MissPassed)
}

// While every verdict wakes the scheduler, as under a cap, what is not the tick is done wakesPerSecond times a second: mostly it
// finds nothing. The first wakesAtOnce are not kept waiting, so that a chain of short syncs is not slower for it.
const (
	wakesPerSecond = 10
	wakesAtOnce    = 10
)

// whenAsked does something at once, whenever it is woken, and every pollEvery.
func (s *Scheduler) whenAsked(ctx context.Context, wake <-chan struct{}, what string, do func(context.Context) error) error {
	ticker := time.NewTicker(pollEvery) // finds what somebody held when its plan was asked for
	defer ticker.Stop()
	pace := rate.NewLimiter(wakesPerSecond, wakesAtOnce)
	for pace.Wait(ctx) == nil {
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
	return nil
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
		s.tellBad(b.bad)
		if b.due {
			s.wishes.add("")
			signal(s.wake)
		}
		if b.written == 0 || b.found < s.config.ClaimBatch && !b.left {
			return nil
		}
	}
	return nil
}

// tellBad says which connectors were disabled, by the first of them: somebody may have written a million.
func (s *Scheduler) tellBad(bad []plan) {
	if len(bad) == 0 {
		return
	}
	s.metrics.badSchedules.Add(float64(len(bad)))
	s.log.Error("connectors are disabled, because their schedules cannot be worked out", "connectors", len(bad), "first", bad[0].ID, "why", bad[0].Problem)
}

// planned is what became of one batch.
type planned struct {
	// written counts those that the next batch does not find: planned, or refused and remembered.
	found, written int
	left           bool // it has left some of them for the next batch
	due            bool // something of it is due now
	// bad are those that are disabled.
	bad []plan
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
		names[i] = calendarNamed{name: r.Calendar, use: r.CalendarUse, who: blackouts.Who{ID: r.ID, UserID: r.UserID, Type: r.Type}}
	}
	all, err := some(ctx, s.calendars, s.queries.WithTx(tx), names, func(i int, c calendarOf) (plan, int) {
		p := planOf(rows[i], c)
		b.due = b.due || p.NextSyncAt != nil && !p.NextSyncAt.After(rows[i].Now)
		return p, len(p.Passed)
	})
	if err != nil {
		return b, err
	}
	b.left = len(all) < len(rows)
	set := func(tx pgx.Tx, part []plan) error {
		text, err := json.Marshal(part)
		if err != nil {
			return wrap("write the plans", err)
		}
		n, err := s.queries.WithTx(tx).Plan(ctx, text)
		if err != nil {
			return wrap("write the plans down", err)
		}
		b.written += int(n)
		for _, p := range part {
			if p.Bad {
				b.bad = append(b.bad, p)
			}
		}
		return nil
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
	// Bad is a schedule that nobody can work out: the connector is disabled.
	Bad bool `json:"bad,omitempty"`
	// Passed are slots that no run answers.
	Passed []slots.Answer `json:"passed,omitempty"`
	// Unmet is why its condition passes it over; UnmetSlot the slot, unless there is none, or it is in Passed.
	Unmet     string     `json:"unmet,omitempty"`
	UnmetSlot *time.Time `json:"unmet_slot,omitempty"`
	// Missed is that it has waited in vain for another, with what was due without a slot.
	Missed string `json:"missed,omitempty"`
	// held is the window that skips an interval's slot, and behind which the next one comes.
	held *putOff
}

func planOf(r dbgen.LockUnplannedRow, c calendarOf) plan {
	p := plan{ID: r.ID, PlannedThrough: r.PlannedThrough}
	if r.ScheduleCron == nil {
		return p
	}
	columns := columnsOfUnplanned(r)
	columns.Calendar, columns.Blackouts = c.Calendar, c.blackouts
	schedule, err := columns.Schedule()
	switch {
	case err != nil:
		p.isBad(err.Error())
		return p
	case c.err != nil:
		p.Problem = c.err.Error()
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
	p = *planOn(r.ID, *r.ScheduleCron, schedule.Plan(columns.State(), r.Now))
	if p.Problem != "" && r.Calendar == nil { // else the calendar may change
		p.isBad(p.Problem)
	}
	return p
}

func (p *plan) isBad(why string) {
	p.Bad, p.Problem = true, "disabled, because of its schedule: "+why+"; correct it, then enable the connector"
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
