package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// mostNews is of how many connectors that have ended one transaction tells those who run after them, at most 1,000 of each.
	mostNews = 10
	// mostChained is how many connectors one transaction looks at, each of which may run after 1,000 others.
	mostChained = 100
	// lookAgain is after how long a connector is looked at again whose upstreams have not told it anything.
	lookAgain = time.Minute
)

// chains looks whether what runs after others may run, until ctx ends.
func (s *Scheduler) chains(ctx context.Context) error {
	return s.whenAsked(ctx, s.chainWake, "chains", s.Follow)
}

// Follow tells connectors that those they run after have ended, and lets those run that wait for nobody any more, or no longer. It
// is all read from where the ends were written down: what died in between is found by the next look.
func (s *Scheduler) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		told, err := deadline.Get(ctx, "scheduler.hand_on", claimTimeout, func(ctx context.Context) (int32, error) {
			return s.queries.HandOn(ctx, mostNews)
		})
		if err != nil {
			return fmt.Errorf("tell who runs after others: %w", err)
		}
		if told < mostNews {
			break
		}
	}
	for ctx.Err() == nil {
		var found int
		var b followed
		err := deadline.Do(ctx, "scheduler.follow", claimTimeout, func(ctx context.Context) error {
			return s.batch(ctx, func(tx pgx.Tx, how attempt) (err error) {
				b = followed{types: map[string]bool{}}
				rows, err := s.queries.WithTx(tx).LockChained(ctx, dbgen.LockChainedParams{Batch: mostChained})
				if err != nil {
					return wrap("lock who runs after others", err)
				}
				found = len(rows)
				set := func(tx pgx.Tx, part []dbgen.LockChainedRow) error { return s.follow(ctx, tx, part, &b) }
				return write(ctx, tx, how, rows, set, func(r dbgen.LockChainedRow, err error) error {
					s.log.Error("what becomes of a connector that runs after others cannot be written, and it is looked at later; the others go on",
						"connector", r.ID, "err", err)
					return wrap("look later", s.queries.WithTx(tx).LookAgain(ctx, dbgen.LookAgainParams{Ids: []int32{r.ID}, Moments: []time.Time{r.Now.Add(lookAgain)}}))
				})
			})
		})
		if err != nil {
			return fmt.Errorf("look at who runs after others: %w", err)
		}
		for kind := range b.types {
			s.wishes.add(kind)
		}
		if len(b.types) > 0 {
			signal(s.wake)
			signal(s.askWake)
		}
		if found == 0 {
			return nil
		}
	}
	return nil
}

// followed is what became of one batch.
type followed struct {
	types map[string]bool // of those that wait for nobody any more
}

// follow writes down what becomes of connectors whose upstreams are looked at. The policies of their slots come first.
func (s *Scheduler) follow(ctx context.Context, tx pgx.Tx, part []dbgen.LockChainedRow, b *followed) error {
	q := s.queries.WithTx(tx)
	ids := make([]int32, len(part))
	names := make([]calendarNamed, len(part))
	for i, r := range part {
		ids[i], names[i] = r.ID, calendarNamed{name: r.Calendar, use: r.CalendarUse}
	}
	found, err := q.Upstreams(ctx, dbgen.UpstreamsParams{Ids: ids})
	if err != nil {
		return wrap("look at upstreams", err)
	}
	of := make(map[int32]dbgen.UpstreamsRow, len(found))
	for _, u := range found {
		of[u.ID] = u
	}
	var met, waiting []int32
	var moments []time.Time
	var plans []*plan
	err = s.calendars.each(ctx, q, names, func(i int, c calendarOf) {
		r := dbgen.LockDueRow(part[i])
		u := of[r.ID]
		slot, instead := slotOf(r, c)
		switch {
		case instead != nil:
			plans = append(plans, instead)
		case u.Met:
			met = append(met, r.ID)
			b.types[r.Type] = true
		case u.GivesUpAt != nil && !u.GivesUpAt.After(r.Now):
			plans = append(plans, inVain(r, slot, fmt.Sprintf("upstream %d did not complete", u.Upstream), c))
		default:
			at := r.Now.Add(lookAgain)
			if u.GivesUpAt != nil && u.GivesUpAt.Before(at) {
				at = *u.GivesUpAt
			}
			waiting, moments = append(waiting, r.ID), append(moments, at)
		}
	})
	if err != nil {
		return err
	}
	if err := s.passOver(ctx, tx, plans); err != nil {
		return err
	}
	if len(met) > 0 {
		if _, err := q.NoteUpstreamsMet(ctx, met); err != nil {
			return wrap("write down whose upstreams are met", err)
		}
	}
	if len(waiting) > 0 {
		return wrap("write down when to look again", q.LookAgain(ctx, dbgen.LookAgainParams{Ids: waiting, Moments: moments}))
	}
	return nil
}

// inVain is when a connector is due next that has waited too long for an upstream: its slot is missed.
func inVain(r dbgen.LockDueRow, over slot, reason string, c calendarOf) *plan {
	p := &plan{ID: r.ID, Passed: over.Passed} // moves.plan knows when an interval's next slot is
	if over.At == nil {
		p.Missed = reason
	} else {
		p.Passed = append(p.Passed, slots.Answer{Verdict: slots.Missed, Reason: reason, First: *over.At, Last: *over.At, Count: 1})
	}
	if r.ScheduleCron == nil {
		return p
	}
	columns := columnsOfDue(r)
	columns.Calendar = c.Calendar
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
	q.Missed, q.Passed = p.Missed, append(p.Passed, next.Passed...)
	return q
}
