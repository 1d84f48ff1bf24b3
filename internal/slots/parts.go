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
	// open says that a sync has completed in their period, and that it is not over.
	open bool
}

// parts are the slots behind what is answered, up to now. However many slots there are, few moments divide them, between which all are
// alike.
func (s Schedule) parts(state State, now time.Time) (all []part) {
	cuts := []time.Time{
		now, state.ClaimedAt, state.OverAt, now.Add(-s.policies.Deadline - 1), now.Add(-s.policies.Window - 1), now.Add(-onTime - 1),
	}
	for _, in := range state.Completed {
		begin, until := s.policies.OncePer.around(in, s.location)
		cuts = append(cuts, begin.Add(-1), until.Add(-1))
	}
	changes, since := s.changes(state.Through, now)
	for _, at := range changes {
		cuts = append(cuts, at.Add(-1))
	}
	slices.SortFunc(cuts, time.Time.Compare)
	from := state.Through
	for _, cut := range cuts {
		if !cut.After(from) || cut.After(now) {
			continue
		}
		if n := s.times.Count(from, cut); n > 0 {
			part := s.part(state, now, cut, since)
			part.First, part.Last, part.Count = s.times.Next(from), s.times.Last(from, cut), n
			if k := len(all) - 1; k >= 0 && all[k].alike(part) {
				all[k].Last, all[k].Count = part.Last, all[k].Count+n
			} else {
				all = append(all, part)
			}
		}
		from = cut
	}
	return all
}

// part says what becomes of a slot. Of one before since its calendar is not asked.
func (s Schedule) part(state State, now, slot, since time.Time) part {
	p := s.policies
	if slot.Before(since) {
		return part{Answer: Answer{Verdict: Missed, Reason: NotCaughtUp}}
	}
	if why, until := s.calendar.Closed(slot); why != "" {
		_, isOne := s.times.(single) // which has its verdict at once
		return part{Answer: Answer{Verdict: Skipped, Reason: why}, open: !isOne && now.Before(until)}
	}
	if h, is := s.SkippedBy(slot); is {
		_, isOne := s.times.(single)
		return part{Answer: Answer{Verdict: Skipped, Reason: h.Says()}, open: !isOne && (h.End.IsZero() || now.Before(h.End))}
	}
	begin, until := s.completed(state, slot)
	inFlight := !state.ClaimedAt.IsZero() && slot.After(state.ClaimedAt) && !slot.After(state.OverAt)
	older := func(age time.Duration) bool { return slot.Before(now.Add(-age)) }
	switch {
	case !until.IsZero():
		return part{Answer: Answer{Verdict: Skipped, Reason: AlreadyCompleted + p.OncePer.name(begin, s.location)}, open: now.Before(until)}
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

// completed is the period of a moment, where a sync has completed in it; else both are zero.
func (s Schedule) completed(state State, at time.Time) (begin, until time.Time) {
	for _, in := range state.Completed {
		if begin, until = s.policies.OncePer.around(in, s.location); !at.Before(begin) && at.Before(until) {
			return begin, until
		}
	}
	return time.Time{}, time.Time{}
}

func (p part) alike(q part) bool {
	return p.waits == q.waits && p.queued == q.queued && p.open == q.open && p.Verdict == q.Verdict && p.Reason == q.Reason
}
