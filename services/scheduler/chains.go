package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// mostTold is how many of those who run after a connector are told in one transaction, and after how many told of wide ends those are looked at.
	mostTold = 1000
	// fewTold is of how many the end of a connector is told together with those of other connectors.
	fewTold = 20
	// mostEnds is how many connectors that have ended are told of before those that were told are looked at.
	mostEnds = 100
	// mostWideEnds is how many connectors that many run after are told of between two looks at those that run after few.
	mostWideEnds = 10
	// mostFollowers is how many connectors one transaction looks at.
	mostFollowers = 100
	// mostWideFollowers is the same of those that run after many, up to a thousand each.
	mostWideFollowers = 5
	// wideAnyway is after how many pages those are told and looked at that run after many, though there is more of the others.
	wideAnyway = 10
	// mostPages bounds one look at chains. What it has not come to is the next look's, which follows at once.
	mostPages = 1000
	// mostFailed is after how many pages that Postgres did not answer one look ends.
	mostFailed = 10
	// lookAgain is after how long a connector is looked at again that could not be written.
	lookAgain = time.Minute
)

// never is how moves.look_again is told that nothing but an end asks for the next look.
var never = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// place is how far a look has come in an order by time and number.
type place struct {
	at time.Time
	id int32
}

// chains looks whether what runs after others may run, until ctx ends.
func (s *Scheduler) chains(ctx context.Context) error {
	return s.whenAsked(ctx, s.chainWake, "chains", func(ctx context.Context) error {
		began := time.Now()
		defer func() { s.metrics.looks.WithLabelValues("chains").Observe(time.Since(began).Seconds()) }()
		return s.Follow(ctx)
	})
}

// Follow tells connectors that those they run after have ended, and lets those go that wait for nobody any more, or no longer. It is all read
// from rows, where the ends stand: what a look does not come to, the next one does. It goes on behind what is held or refused. A few wide ends and
// followers come after a page of narrow ones that is not full, so that no chain is behind a thousand connectors that run after the same thousand.
func (s *Scheduler) Follow(ctx context.Context) error {
	var problem error
	failed := 0
	start := place{at: never}
	ended, looked, wideEnded, wideLooked := start, start, start, start
	for page := 0; ctx.Err() == nil; page++ {
		if page == mostPages {
			signal(s.chainWake)
			break
		}
		changed := s.tellChanged(ctx)
		told, untold := s.tell(ctx, &ended)
		found, unseen := s.lookAtFollowers(ctx, &looked, false)
		problems := errors.Join(changed, untold, unseen)
		anyway := page%wideAnyway == wideAnyway-1
		if (told < mostEnds && found < mostFollowers) || anyway {
			wide, err := s.lookAtFollowers(ctx, &wideLooked, true)
			problems, found = errors.Join(problems, err), found+wide
			if wide < mostWideFollowers || anyway {
				n, err := s.tellWide(ctx, &wideEnded)
				problems, told = errors.Join(problems, err), told+n
			}
		}
		if problems != nil {
			problem = errors.Join(problem, problems)
			failed++
		}
		if told+found == 0 || failed == mostFailed {
			break
		}
	}
	return problem
}

// lookAtFollowers looks at connectors that run after few others, or after many, and whose time has come: a page of them, behind a place. It says how many there were.
func (s *Scheduler) lookAtFollowers(ctx context.Context, behind *place, wide bool) (int, error) {
	batch := int32(mostFollowers)
	if wide {
		batch = mostWideFollowers
	}
	page, err := deadline.Get(ctx, "scheduler.followers", queryTimeout, func(ctx context.Context) ([]dbgen.FollowersToLookAtRow, error) {
		return s.queries.FollowersToLookAt(ctx, dbgen.FollowersToLookAtParams{Wide: wide, AfterAt: behind.at, AfterID: behind.id, Batch: batch})
	})
	if err != nil || len(page) == 0 {
		return 0, wrap("look who runs after others", err)
	}
	told, ids := make(map[int32]int64, len(page)), make([]int32, len(page))
	for i, f := range page {
		told[f.ConnectorID], ids[i] = f.Told, f.ConnectorID
		*behind = place{f.LookAt, f.ConnectorID}
	}
	var b *followed
	err = deadline.Do(ctx, "scheduler.follow", claimTimeout, func(ctx context.Context) error {
		return s.batch(ctx, func(tx pgx.Tx, how attempt) error {
			b = &followed{told: told, types: map[string]bool{}}
			rows, err := s.queries.WithTx(tx).LockFollowers(ctx, dbgen.LockFollowersParams{Ids: ids})
			if err != nil {
				return wrap("lock who runs after others", err)
			}
			set := func(tx pgx.Tx, part []dbgen.LockFollowersRow) error { return s.follow(ctx, tx, part, b) }
			return write(ctx, tx, how, rows, set, func(r dbgen.LockFollowersRow, err error) error {
				s.log.Error("what becomes of a connector that runs after others cannot be written, and it is looked at later; the others go on",
					"connector", r.ID, "err", err)
				return s.lookLater(ctx, tx, b, []int32{r.ID}, []time.Time{r.Now.Add(lookAgain)}, nil, nil)
			})
		})
	})
	if err != nil {
		return len(page), wrap("look at who runs after others", err)
	}
	if b.left {
		signal(s.chainWake)
	}
	for said, n := range map[string]int{"let go": b.let, "missed": b.missed, "waits": b.waiting} {
		s.metrics.chains.WithLabelValues(said).Add(float64(n))
	}
	for kind := range b.types {
		s.wishes.add(kind)
	}
	if len(b.types) > 0 {
		signal(s.wake)
		signal(s.askWake)
	}
	return len(page), nil
}

// lookLater writes down when to look again, since when a connector without a schedule waits, and the upstream whose end it is told of, 0 = any; nil: as it stands.
func (s *Scheduler) lookLater(ctx context.Context, tx pgx.Tx, b *followed, ids []int32, at, sinces []time.Time, upstreams []int32) error {
	told := make([]int64, len(ids))
	for i, id := range ids {
		told[i] = b.told[id]
	}
	return wrap("write down when to look again", s.queries.WithTx(tx).LookAgain(ctx, dbgen.LookAgainParams{Ids: ids, Told: told, Moments: at, Sinces: sinces, Upstreams: upstreams}))
}

// followed is what became of one page.
type followed struct {
	told                 map[int32]int64 // how often each was told when it was looked up
	types                map[string]bool // of those that wait for nobody any more
	left                 bool            // some that the next look comes to
	let, missed, waiting int
}

// fates are what is written down of connectors that were looked at.
type fates struct {
	stop, met      []int32
	vain, upstream []int32 // connectors without a schedule that wait no more, and the upstream that they waited for
	plans          []*plan
	waiting, on    []int32     // on: whose end they are told of, 0 = everybody's
	until, since   []time.Time // since: who has no schedule and waits for the rest of its upstreams
}

// follow writes down what becomes of connectors whose upstreams are looked at. The policies of their slots come first.
func (s *Scheduler) follow(ctx context.Context, tx pgx.Tx, part []dbgen.LockFollowersRow, b *followed) error {
	if len(part) == 0 {
		return nil
	}
	q, ids, names := s.queries.WithTx(tx), make([]int32, len(part)), make([]calendarNamed, len(part))
	for i, r := range part {
		ids[i], names[i] = r.ID, namedBy(dbgen.LockDueRow(r))
	}
	found, err := q.UpstreamsOf(ctx, dbgen.UpstreamsOfParams{Ids: ids, Now: part[0].Now})
	if err != nil {
		return wrap("look at upstreams", err)
	}
	of := make(map[int32]dbgen.UpstreamsOfRow, len(found))
	for _, u := range found {
		of[u.ID] = u
	}
	var f fates
	types, back := map[string]bool{}, s.outage.since(part[0].Now).Add(-afterAnOutage)
	seen, err := some(ctx, s.calendars, q, names, func(i int, c calendarOf) (struct{}, int) {
		r := dbgen.LockDueRow(part[i])
		n, before := len(f.met), len(f.plans)
		f.decide(r, of[r.ID], c, back)
		types[r.Type] = types[r.Type] || len(f.met) > n
		return struct{}{}, linesOf(f.plans[before:])
	})
	if err != nil {
		return err
	}
	b.left = b.left || len(seen) < len(part)
	if err := s.writeFates(ctx, tx, f, part[0].Now, b); err != nil {
		return err
	}
	for kind, met := range types {
		if met {
			b.types[kind] = true
		}
	}
	return nil
}

func (s *Scheduler) writeFates(ctx context.Context, tx pgx.Tx, f fates, now time.Time, b *followed) error {
	q := s.queries.WithTx(tx)
	if err := s.passOver(ctx, tx, f.plans); err != nil {
		return err
	}
	if len(f.stop) > 0 {
		if err := q.StopFollowing(ctx, f.stop); err != nil {
			return wrap("write down who runs after nobody", err)
		}
	}
	if len(f.met) > 0 {
		if _, err := q.LetFollow(ctx, f.met); err != nil {
			return wrap("let go who waits for nobody", err)
		}
	}
	if len(f.vain) > 0 {
		if err := q.GiveUpFollowing(ctx, dbgen.GiveUpFollowingParams{Ids: f.vain, Upstreams: f.upstream, Now: now}); err != nil {
			return wrap("write down who has waited in vain", err)
		}
	}
	if len(f.waiting) > 0 {
		if err := s.lookLater(ctx, tx, b, f.waiting, f.until, f.since, f.on); err != nil {
			return err
		}
	}
	b.let, b.waiting, b.missed = b.let+len(f.met), b.waiting+len(f.waiting)-len(f.vain), b.missed+len(f.vain)
	return nil
}

// decide says what becomes of one connector. What has waited since before back, when no scheduler looked, waits anew: its upstreams could not run either.
func (f *fates) decide(r dbgen.LockDueRow, u dbgen.UpstreamsOfRow, c calendarOf, back time.Time) {
	began, on := never, u.WaitsFor
	waits := func(until time.Time) {
		// An end that becomes too old is waited for again.
		if ages := u.AgesAt.Add(time.Millisecond); !u.AgesAt.Equal(never) && (until.Equal(never) || ages.Before(until)) {
			until = ages
		}
		f.waiting, f.until, f.since, f.on = append(f.waiting, r.ID), append(f.until, until), append(f.since, began), append(f.on, on)
	}
	patience := time.Duration(u.TimeoutMinutes) * time.Minute
	if !u.Chained {
		f.stop = append(f.stop, r.ID)
		return
	}
	if r.DueReason == "upstream" { // it has no schedule
		switch {
		case u.Met:
			f.met = append(f.met, r.ID)
		case patience == 0:
			began = u.Since
			waits(never)
		case u.Since.Equal(never): // the patience begins with the first end
			on = 0
			waits(never)
		case r.Now.Sub(latest(u.Since, back)) < patience:
			began = u.Since
			waits(latest(u.Since, back).Add(patience))
		default:
			f.vain, f.upstream = append(f.vain, r.ID), append(f.upstream, u.Upstream)
			on = 0
			waits(never)
		}
		return
	}
	_, instead := slotOf(r, c)
	switch {
	case instead != nil:
		f.plans = append(f.plans, instead)
		return
	case u.Met:
		f.met = append(f.met, r.ID)
		return
	}
	since, until := r.NextSyncAt, never
	if r.SlotAt != nil {
		since = *r.SlotAt
	}
	if patience > 0 {
		until = latest(since, back).Add(patience + time.Millisecond)
	}
	if patience == 0 || r.Now.Before(until) {
		if r.SlotAt != nil && r.DeadlineMinutes != nil { // it is too late then, whichever of them ends
			tooLate := r.SlotAt.Add(time.Duration(*r.DeadlineMinutes)*time.Minute + time.Millisecond)
			if tooLate.After(r.Now) && (patience == 0 || tooLate.Before(until)) {
				until = tooLate
			}
		}
		waits(until)
		return
	}
	p := inVain(r, u, c)
	if r.SlotAt != nil && len(p.Passed) == 0 && p.Problem == "" { // it waits for another reason
		waits(r.Now.Add(lookAgain))
		return
	}
	f.plans = append(f.plans, p)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// inVain is when a connector is due next that has waited too long for another: the slots are missed that have waited so long, and no later one.
func inVain(r dbgen.LockDueRow, u dbgen.UpstreamsOfRow, c calendarOf) *plan {
	why := fmt.Sprintf("upstream %d did not complete", u.Upstream)
	p := &plan{ID: r.ID} // moves.plan knows when an interval's next slot is
	if r.SlotAt == nil {
		p.Missed = why
	}
	if r.ScheduleCron == nil {
		if r.SlotAt != nil {
			p.Passed = []slots.Answer{{Verdict: slots.Missed, Reason: why, First: *r.SlotAt, Last: *r.SlotAt, Count: 1}}
		}
		return p
	}
	columns := columnsOfDue(r)
	columns.Calendar, columns.Blackouts = c.Calendar, c.blackouts
	shorter := columns.Deadline == nil || *columns.Deadline > u.TimeoutMinutes
	if shorter {
		columns.Deadline = &u.TimeoutMinutes
	}
	schedule, err := columns.Schedule()
	if err = cmp.Or(c.err, err); err != nil {
		p.Problem = err.Error()
		return p
	}
	state := columns.State()
	switch {
	case r.SlotAt != nil && (state.Through.IsZero() || !state.Through.Before(*r.SlotAt)):
		state.Through = r.SlotAt.Add(-1)
	case state.Through.IsZero():
		state.Through = r.Now
	}
	next := schedule.Plan(state, r.Now)
	for i := range next.Passed {
		if shorter && next.Passed[i].Reason == slots.TooLate {
			next.Passed[i].Reason = why
		}
	}
	q := planOn(r.ID, *r.ScheduleCron, next)
	q.Missed = p.Missed
	return q
}
