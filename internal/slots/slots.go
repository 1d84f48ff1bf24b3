// Package slots decides what becomes of the slots of a schedule that have come: which one runs, which are skipped or missed, and when
// the next comes. The scheduler plans and claims by it, and `echomind schedule preview` shows what it would decide; there is no
// other copy of these rules. docs/schedules.md says them for people.
package slots

import (
	"time"

	"github.com/echomind/sync/internal/cron"
)

// What the columns of a connector may hold.
const (
	OverlapSkip  = "skip"
	OverlapQueue = "queue"

	CatchUpNone   = "none"
	CatchUpLatest = "latest"
	CatchUpAll    = "all"
)

// Verdicts of slots that no run answers, as the ledger has them.
const (
	Skipped = "skipped"
	Missed  = "missed"
)

// Reasons of these verdicts. AlreadyCompleted is followed by the period.
const (
	AlreadyCompleted = "already completed for "
	NotOver          = "its last run was not over"
	TooLate          = "too late"
	NotCaughtUp      = "not caught up"
	Passed           = "passed before it could be claimed"
)

// onTime is how late a slot may be claimed that runs although nothing is caught up: the scheduler looks each minute, and its look
// may be late itself.
const onTime = 2 * time.Minute

// Policies are what a connector's columns say of its slots.
type Policies struct {
	// Deadline is how late a slot may be claimed; 0 = it is never too late.
	Deadline time.Duration
	Overlap  string
	OncePer  Period
	CatchUp  string
	// Most is how many slots are caught up at most, where all are.
	Most int
	// Window is how old a slot may be that is caught up; 0 = of any age.
	Window time.Duration
}

// Oldest is how old a slot may be that runs; 0 = of any age.
func (p Policies) Oldest() time.Duration {
	oldest := p.Deadline
	if p.Window > 0 && (oldest == 0 || p.Window < oldest) {
		oldest = p.Window
	}
	if p.CatchUp == CatchUpNone && p.Deadline == 0 {
		oldest = onTime
	}
	return oldest
}

// Times are the moments at which a schedule has slots.
type Times interface {
	// Next is the first behind a moment; zero where there is none.
	Next(after time.Time) time.Time
	// Last is the last behind a moment and not behind until; zero where there is none.
	Last(after, until time.Time) time.Time
	Count(after, until time.Time) int
}

// Schedule decides about the slots of one connector.
type Schedule struct {
	times    Times
	location *time.Location
	policies Policies
	calendar *Calendar
	// blackouts are the windows that may hold connector id.
	id        int32
	blackouts []Blackout
}

// Cron is the schedule of a cron expression.
func Cron(s cron.Schedule, p Policies) Schedule {
	return Schedule{times: s, location: s.Location(), policies: p}
}

// Interval is the schedule of an interval, which has one slot at a time.
func Interval(slot time.Time, p Policies) Schedule {
	p.OncePer, p.Overlap = "", OverlapSkip // it counts from the end of a sync
	return Schedule{times: single(slot), location: time.UTC, policies: p}
}

// State is where a connector stands.
type State struct {
	// Through is up to where each slot has its verdict or its run.
	Through time.Time
	// ClaimedAt is when its last sync was claimed first, zero where there was none; OverAt when it was over, zero while it is not.
	ClaimedAt, OverAt time.Time
	// Completed are moments in whose periods a sync has completed.
	Completed []time.Time
}

// Answer is the verdict of slots that no run answers.
type Answer struct {
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`
}

// Plan is when a connector at rest is due next.
type Plan struct {
	// Passed are slots that get their verdict now. Those of a period in which a sync has completed wait for theirs until it is over: one
	// line has them all, and none that a change takes away.
	Passed []Answer
	// Through is up to where slots are answered then.
	Through time.Time
	// Next is the next slot, which may have passed; zero where none comes any more.
	Next time.Time
}

// Plan looks for the next slot of a connector at rest.
func (s Schedule) Plan(state State, now time.Time) Plan {
	p := Plan{Through: state.Through}
	for _, part := range s.parts(state, now) {
		if part.waits {
			p.Next = part.First
			return p
		}
		if part.open {
			break
		}
		p.Passed, p.Through = add(p.Passed, part.Answer), part.Last
	}
	end := latest(now, p.Through)
	if _, until := s.completed(state, now); until.After(end) {
		end = until.Add(-1)
	}
	p.Next = s.Next(end)
	return p
}

// GivenUp is what becomes of the slots up to now that a connector's user takes away: those of a period in which a sync has completed are
// skipped all the same, the others are missed, for a reason.
func (s Schedule) GivenUp(state State, now time.Time, reason string) (all []Answer) {
	s.policies = Policies{OncePer: s.policies.OncePer}
	for _, part := range s.parts(State{Through: state.Through, Completed: state.Completed}, now) {
		if part.waits {
			part.Reason = reason
		}
		all = add(all, part.Answer)
	}
	return all
}

// Claim is what is done with the slots that have come of a connector that is due.
type Claim struct {
	// Passed are slots that get their verdict now, before the one that runs and behind it.
	Passed []Answer
	// Run is the slot that runs; zero where none does, and Plan says what then.
	Run time.Time
	// Through is up to where slots are answered then.
	Through time.Time
}

// Claim decides about a slot that is due, and all others that have come and are not answered.
func (s Schedule) Claim(slot time.Time, state State, now time.Time) (c Claim) {
	if state.Through.IsZero() || !state.Through.Before(slot) {
		state.Through = slot.Add(-1)
	}
	all := s.parts(state, now)
	c.Run = s.choose(all)
	if c.Run.IsZero() {
		if len(all) == 0 { // the time zone's rules have changed since it was planned
			c.Run, c.Through = slot, slot
		}
		return c
	}
	c.Through = c.Run
	var behind []Answer
	for _, part := range all {
		if part.First.After(c.Run) {
			if part.waits || part.open {
				break
			}
			behind, c.Through = add(behind, part.Answer), part.Last
			continue
		}
		answer := part.Answer
		if !part.Last.Before(c.Run) {
			answer.Last = s.times.Last(part.First.Add(-1), c.Run.Add(-1))
			answer.Count = s.times.Count(part.First.Add(-1), c.Run.Add(-1))
		}
		if answer.Count > 0 {
			c.Passed = add(c.Passed, answer)
		}
		if part.Last.After(c.Run) {
			break
		}
	}
	c.Passed = append(c.Passed, behind...)
	return c
}

// choose is the slot that runs of those that wait; zero where none does.
func (s Schedule) choose(all []part) (run time.Time) {
	left := 1
	if s.policies.CatchUp == CatchUpAll {
		left = max(1, s.policies.Most)
	}
	for i := len(all) - 1; i >= 0 && left > 0; i-- {
		part, n := all[i], 1
		switch {
		case !part.waits:
			continue
		case part.queued || left == 1:
			run = part.Last
		case part.Count <= left:
			run, n = part.First, part.Count
		default:
			run, n = s.fromEnd(part.Answer, left), left
		}
		left -= n
	}
	return run
}

// fromEnd is the slot behind which there are n-1 of a part.
func (s Schedule) fromEnd(a Answer, n int) time.Time {
	from, until := a.First.Add(-1), a.Last
	for until.Sub(from) > time.Second {
		middle := from.Add(until.Sub(from) / 2)
		if s.times.Count(middle, a.Last) >= n {
			from = middle
		} else {
			until = middle
		}
	}
	return s.times.Next(from)
}

// add appends an answer, or lengthens the last one, where they say the same.
func add(all []Answer, a Answer) []Answer {
	if n := len(all); n > 0 && all[n-1].Verdict == a.Verdict && all[n-1].Reason == a.Reason {
		all[n-1].Last, all[n-1].Count = a.Last, all[n-1].Count+a.Count
		return all
	}
	return append(all, a)
}

// single is a schedule of one slot.
type single time.Time

func (s single) Next(after time.Time) time.Time {
	if at := time.Time(s); at.After(after) {
		return at
	}
	return time.Time{}
}

func (s single) Last(after, until time.Time) time.Time {
	if at := s.Next(after); !at.After(until) {
		return at
	}
	return time.Time{}
}

func (s single) Count(after, until time.Time) int {
	if s.Last(after, until).IsZero() {
		return 0
	}
	return 1
}

// Share is an id's place between 0 and 1, as moves.interval_slot has it: ids that follow each other lie as far apart as possible.
func Share(id int32) float64 { return float64(uint32(int64(id)*2654435761)) / (1 << 32) }
