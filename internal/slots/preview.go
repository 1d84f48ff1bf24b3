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
	answered := func(passed []Answer) {
		for _, a := range passed {
			all = append(all, Entry(a))
		}
	}
	for now := from; len(all) < most; {
		plan := s.Plan(state, now)
		answered(plan.Passed)
		state.Through = plan.Through
		if plan.Next.IsZero() || plan.Next.After(until) {
			break
		}
		if plan.Next.After(now) {
			now = plan.Next
		}
		claim := s.Claim(plan.Next, state, now)
		answered(claim.Passed)
		if claim.Run.IsZero() {
			state.Through = plan.Next.Add(-1)
			continue
		}
		all = append(all, Entry{Verdict: Runs, First: claim.Run, Last: claim.Run, Count: 1})
		state = State{Through: claim.Run, ClaimedAt: now, SyncedAt: now.Add(takes), SyncedFor: claim.Run}
		now = state.SyncedAt
	}
	return all[:min(len(all), most)]
}

// PreviewInterval is Preview of an interval, whose next slot counts from the end of the sync before.
func PreviewInterval(next time.Time, until time.Time, takes time.Duration, most int, after func(time.Time) (time.Time, error)) (all []Entry, err error) {
	for !next.After(until) && len(all) < most {
		all = append(all, Entry{Verdict: Runs, First: next, Last: next, Count: 1})
		if next, err = after(next.Add(takes)); err != nil {
			return nil, err
		}
	}
	return all, nil
}
