package slots

import (
	"slices"
	"time"
)

// part is what the policies say of slots that follow each other: those that wait may run, and have this answer where they do not.
type part struct {
	Answer
	waits bool
	// queued says that they came while a sync was under way, so that one of them runs.
	queued bool
}

// parts are the slots behind what is answered, up to now; where a sync has completed in the period of now, up to the end of the period.
// However many slots there are, few moments divide them, between which all are alike.
func (s Schedule) parts(state State, now time.Time) (all []part, end time.Time) {
	end = now
	begin, until := s.policies.OncePer.around(state.SyncedFor, s.location)
	if !now.Before(begin) && now.Before(until) {
		end = until.Add(-1)
	}
	cuts := []time.Time{
		end, now, begin.Add(-1), until.Add(-1), state.ClaimedAt, state.SyncedAt, now.Add(-s.policies.Deadline - 1),
		now.Add(-s.policies.Window - 1), now.Add(-onTime - 1),
	}
	slices.SortFunc(cuts, time.Time.Compare)
	from := state.Through
	for _, cut := range cuts {
		if !cut.After(from) || cut.After(end) {
			continue
		}
		if n := s.times.Count(from, cut); n > 0 {
			part := s.part(state, now, cut)
			part.First, part.Last, part.Count = s.times.Next(from), s.times.Last(from, cut), n
			if k := len(all) - 1; k >= 0 && all[k].alike(part) {
				all[k].Last, all[k].Count = part.Last, all[k].Count+n
			} else {
				all = append(all, part)
			}
		}
		from = cut
	}
	return all, end
}

// part says what becomes of a slot.
func (s Schedule) part(state State, now, slot time.Time) part {
	p := s.policies
	begin, until := p.OncePer.around(state.SyncedFor, s.location)
	inFlight := !state.ClaimedAt.IsZero() && slot.After(state.ClaimedAt) && !slot.After(state.SyncedAt)
	older := func(age time.Duration) bool { return slot.Before(now.Add(-age)) }
	switch {
	case !slot.Before(begin) && slot.Before(until):
		return part{Answer: Answer{Verdict: Skipped, Reason: AlreadyCompleted + p.OncePer.name(begin, s.location)}}
	case inFlight && p.Overlap == OverlapSkip:
		return part{Answer: Answer{Verdict: Skipped, Reason: NotOver}}
	case p.Deadline > 0 && older(p.Deadline):
		return part{Answer: Answer{Verdict: Missed, Reason: TooLate}}
	case inFlight:
		return part{Answer: Answer{Verdict: Missed, Reason: Passed}, waits: true, queued: true}
	case p.Window > 0 && older(p.Window), p.CatchUp == CatchUpNone && p.Deadline == 0 && older(onTime):
		return part{Answer: Answer{Verdict: Missed, Reason: NotCaughtUp}}
	}
	return part{Answer: Answer{Verdict: Missed, Reason: Passed}, waits: true}
}

func (p part) alike(q part) bool {
	return p.waits == q.waits && p.queued == q.queued && p.Verdict == q.Verdict && p.Reason == q.Reason
}
