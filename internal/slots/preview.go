package slots

import "time"

// Runs is the verdict of an Entry whose slot runs.
const Runs = "runs"

// Entry is what a preview says of one slot, or of several that have the same verdict.
type Entry struct {
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason,omitempty"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`
}

// Preview decides about the slots from a moment until another as the scheduler would that is there all the time: each slot is claimed
// when it comes, and each sync completes after so long. It ends after most entries.
func (s Schedule) Preview(state State, from, until time.Time, takes time.Duration, most int) (all []Entry) {
	now := from
	for len(all) < most {
		plan := s.Plan(state, now)
		all = answered(all, plan.Passed)
		state.Through = plan.Through
		if plan.Next.IsZero() || plan.Next.After(until) {
			all = answered(all, s.left(state, latest(now, until)))
			break
		}
		now = latest(now, plan.Next)
		claim, waits := s.Claim(plan.Next, state, now), ""
		for !claim.Run.IsZero() { // what a window holds stays due for the same slot: nothing is answered until it is claimed
			h, is := s.Held(claim.Run, now)
			if !is {
				break
			}
			if h.Until.After(until) {
				all = append(all, s.PutOff(state, now, until)...)
				return all[:min(len(all), most)]
			}
			now, waits = h.Until, Waits(h)
			claim = s.Claim(plan.Next, state, now)
		}
		if claim.Run.IsZero() {
			continue
		}
		before := 0
		for before < len(claim.Passed) && claim.Passed[before].First.Before(claim.Run) {
			before++
		}
		all = append(answered(all, claim.Passed[:before]), Entry{Verdict: Runs, Reason: waits, First: claim.Run, Last: claim.Run, Count: 1})
		all = answered(all, claim.Passed[before:])
		state.Through, state.ClaimedAt, state.OverAt = claim.Through, now, now.Add(takes)
		if len(state.Completed) == 0 || state.Completed[0].Before(claim.Run) {
			state.Completed = []time.Time{claim.Run}
		} else {
			state.Completed = []time.Time{state.Completed[0], claim.Run}
		}
		now = state.OverAt
	}
	return all[:min(len(all), most)]
}

// PutOff is what is known at a moment of the slots until another, where one waits for the end of a window behind that: what becomes of those that wait is decided then.
func (s Schedule) PutOff(state State, from, until time.Time) (all []Entry) {
	for _, a := range s.left(state, latest(from, until)) {
		if a.Verdict == Skipped {
			all = append(all, Entry(a))
		}
	}
	return all
}

// left are the slots up to a moment whose verdict is known, and written when their period is over. Those behind one that waits have a line of their own; which sync they came in is not known, as that one's may be another.
func (s Schedule) left(state State, until time.Time) (all []Answer) {
	behind, waits := false, false
	for _, part := range s.parts(state, until) {
		switch {
		case part.waits, waits && part.Reason == NotOver:
			behind, waits = true, true
			continue
		case behind:
			all = append(all, part.Answer)
		default:
			all = add(all, part.Answer)
		}
		behind = false
	}
	return all
}

// Every is an interval, as its columns have it.
type Every struct{ Minutes, Spread int32 }

// PreviewInterval is Preview of an interval. It begins with a slot that is claimed at a moment, or when it comes; each slot behind it
// counts from the end of the sync before.
func PreviewInterval(
	c Columns, every Every, slot, from, until time.Time, takes time.Duration, most int, after func(time.Time) (time.Time, error),
) (all []Entry, err error) {
	waits := ""
	for now := from; !latest(now, slot).After(until) && len(all) < most; {
		now = latest(now, slot)
		schedule := c.IntervalAt(slot)
		h, skipped := schedule.SkippedBy(slot)
		if schedule.Claim(slot, State{}, now).Run.IsZero() {
			all = answered(all, schedule.Plan(State{}, now).Passed)
		} else if held, is := schedule.Held(slot, now); is {
			now, waits = held.Until, Waits(held)
			continue
		} else {
			all = append(all, Entry{Verdict: Runs, Reason: waits, First: slot, Last: slot, Count: 1})
			now = now.Add(takes)
		}
		if reopens := schedule.Reopens(c.ID, slot, time.Duration(every.Minutes)*time.Minute, every.Spread); !reopens.IsZero() {
			slot, waits = reopens, ""
			continue
		}
		if waits = ""; skipped {
			slot = h.Until
			continue
		}
		if slot, err = after(now); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Waits is what a preview says of a slot that runs once a window is over.
func Waits(h Held) string { return h.Says() + ", then at " + h.Until.UTC().Format(time.RFC3339) }

func answered(all []Entry, passed []Answer) []Entry {
	for _, a := range passed {
		all = append(all, Entry(a))
	}
	return all
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
