package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/conditions"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// failure is a condition that failed, as moves.fail_conditions wants it.
type failure struct {
	ID      int32  `json:"id"`
	Problem string `json:"problem"`
}

// answered is what one transaction writes down of a condition's answers.
type answered struct {
	met      []int32
	holds    []*putOff // they wait for the end of a blackout window
	plans    []*plan   // they run no slot: for a policy, or because the condition is not met
	unmet    int
	failures []failure
}

// tally is what came of a condition's answers.
type tally struct {
	met, unmet, failed, written int
	types                       map[string]bool // of those that are met
}

// writeAnswers writes down what a condition has said of connectors. Each must stand as it did when it was asked about: a change, or another scheduler,
// may have come first. written counts the connectors that had something written.
func (s *Scheduler) writeAnswers(ctx context.Context, name string, answers map[int32]reply) (written int, err error) {
	if len(answers) == 0 {
		return 0, nil
	}
	var t tally
	err = deadline.Do(ctx, "scheduler.answers", claimTimeout, func(ctx context.Context) error {
		return s.batch(ctx, func(tx pgx.Tx, how attempt) error {
			t = tally{types: map[string]bool{}}
			rows, err := s.queries.WithTx(tx).LockAsking(ctx, dbgen.LockAskingParams{Ids: slices.Collect(maps.Keys(answers))})
			if err != nil {
				return wrap("lock who has asked a condition", err)
			}
			set := func(tx pgx.Tx, part []dbgen.LockAskingRow) error {
				return s.setAnswers(ctx, tx, name, part, answers, &t)
			}
			return write(ctx, tx, how, rows, set, func(r dbgen.LockAskingRow, err error) error {
				isNew, kept := s.asking.refused.add(r.ID, time.Now())
				if isNew {
					s.log.Error("what a condition has said of a connector cannot be written, and it is asked again later; the others go on",
						"connector", r.ID, "condition", name, "err", err)
				}
				if kept {
					t.written++
				}
				return nil
			})
		})
	})
	if err != nil {
		return 0, wrap("write what condition "+name+" has said", err)
	}
	for said, n := range map[string]int{"met": t.met, "not met": t.unmet, "failed": t.failed} {
		s.metrics.conditions.WithLabelValues(name, said).Add(float64(n))
	}
	for kind := range t.types {
		s.wishes.add(kind)
	}
	if len(t.types) > 0 {
		signal(s.wake)
	}
	return t.written, nil
}

// setAnswers writes some of them. Those that it does not come to are asked again.
func (s *Scheduler) setAnswers(
	ctx context.Context, tx pgx.Tx, name string, part []dbgen.LockAskingRow, answers map[int32]reply, t *tally,
) error {
	var all answered
	types := map[string]bool{}
	names := make([]calendarNamed, len(part))
	for i, r := range part {
		names[i] = namedBy(dbgen.LockDueRow(r))
	}
	_, err := some(ctx, s.calendars, s.queries.WithTx(tx), names, func(i int, c calendarOf) (struct{}, int) {
		r, before := dbgen.LockDueRow(part[i]), len(all.plans)
		a := answers[r.ID]
		if r.Condition != nil && *r.Condition == name && r.NextSyncAt.Equal(a.due) && r.ConfigVersion == a.version {
			s.decide(&all, name, r, a, c)
			types[r.Type] = types[r.Type] || a.met
		}
		return struct{}{}, linesOf(all.plans[before:])
	})
	if err != nil {
		return err
	}
	if err := s.passOver(ctx, tx, all.plans); err != nil {
		return err
	}
	if err := s.hold(ctx, tx, all.holds); err != nil {
		return err
	}
	q := s.queries.WithTx(tx)
	if len(all.met) > 0 {
		if _, err := q.NoteMet(ctx, all.met); err != nil {
			return wrap("write down whose condition is met", err)
		}
	}
	if len(all.failures) > 0 {
		text, err := json.Marshal(all.failures)
		if err != nil {
			return wrap("write the failures", err)
		}
		if _, err := q.FailConditions(ctx, text); err != nil {
			return wrap("write down whose condition has failed", err)
		}
	}
	maps.DeleteFunc(types, func(_ string, met bool) bool { return !met })
	maps.Copy(t.types, types)
	t.met, t.unmet, t.failed = t.met+len(all.met), t.unmet+all.unmet, t.failed+len(all.failures)
	t.written += len(all.met) + len(all.holds) + len(all.plans) + len(all.failures)
	return nil
}

// decide says what becomes of one connector. The policies of its slots come first: what none of them lets run needs no condition.
func (s *Scheduler) decide(all *answered, name string, r dbgen.LockDueRow, a reply, c calendarOf) {
	slot, instead := slotOf(r, c)
	own := r
	own.Asked = false // what is asked for with parameters asks no condition
	held := heldOf(own, slot, c)
	switch at := later(r, slot, s.outage.since(r.Now), s.config.CatchUpWindow); {
	case instead != nil:
		all.plans = append(all.plans, instead)
	case held != nil:
		all.holds = append(all.holds, held)
	case !at.IsZero():
		all.plans = append(all.plans, &plan{ID: r.ID, NextSyncAt: &at, DueReason: r.DueReason, SlotAt: r.SlotAt})
	case a.problem != "":
		all.failures = append(all.failures, failure{ID: r.ID, Problem: a.problem})
	case a.met:
		all.met = append(all.met, r.ID)
	default:
		all.plans = append(all.plans, unmet(r, slot, conditions.NotMet(name), c))
		all.unmet++
	}
}

// unmet is when a connector is due next whose condition is not met.
func unmet(r dbgen.LockDueRow, over slot, reason string, c calendarOf) *plan {
	p := &plan{ID: r.ID, Passed: over.Passed, Unmet: reason, UnmetSlot: over.At} // moves.plan knows when an interval's next slot is
	if r.ScheduleCron == nil {
		return p
	}
	columns := columnsOfDue(r)
	columns.Calendar, columns.Blackouts = c.Calendar, c.blackouts
	schedule, err := columns.Schedule()
	if err = cmp.Or(c.err, err); err != nil {
		p.Problem = err.Error()
		return p
	}
	state := columns.State()
	switch {
	case over.Through != nil && over.At != nil:
		state.Through = *over.Through
	case state.Through.IsZero():
		state.Through = r.Now
	}
	next := schedule.Plan(state, r.Now)
	q := planOn(r.ID, *r.ScheduleCron, next)
	q.Unmet, q.UnmetSlot = reason, over.At
	if over.At == nil {
		return q // what has passed before is among what its plan answers
	}
	before, behind := over.Passed, next.Passed
	if i := slices.IndexFunc(over.Passed, func(a slots.Answer) bool { return a.First.After(*over.At) }); i >= 0 {
		before, behind = over.Passed[:i], slices.Concat(over.Passed[i:], next.Passed)
	}
	q.Passed = before
	if len(behind) > 0 { // in the order of the slots: a line that others would be added to has none behind it
		q.Passed = append(slices.Clone(before), slots.Answer{Verdict: slots.Skipped, Reason: reason, First: *over.At, Last: *over.At, Count: 1})
		q.Passed, q.UnmetSlot = append(q.Passed, behind...), nil
	}
	return q
}

// tooOld says whether a condition was met so long ago that it is asked again.
func tooOld(r dbgen.LockDueRow) bool {
	return r.ConditionMetAt != nil && r.Now.Sub(*r.ConditionMetAt) > answerHolds
}
