package audit

import (
	"slices"
	"time"
)

func (h *history) oneVerdict() Finding {
	f := Finding{
		Promise: 4, Name: "one verdict for each run",
		How: "every run is opened once and closed once, in the transaction that writes its verdict and reason, which never changes again",
	}
	h.seen(&f, "verdict")
	for _, r := range h.ordered {
		f.Checked++
		switch {
		case r.noRun() && r.opened == 0 && r.closed == 0 && r.ended == 1:
		case r.opened != 1 || r.ended > 1 || r.closed > 1:
			f.violated("%s was opened %d times, closed %d times and ended %d times", r, r.opened, r.closed, r.ended)
		case r.closed == 0:
			f.violated("%s is open, and everything is at rest", r)
		case r.ended == 0 || r.endedBy != r.closedBy:
			f.violated("%s was closed without a verdict", r)
		}
		switch {
		case r.gone:
			f.violated("%s has vanished from the ledger", r)
		case r.verdict != "" && r.verdict != "completed" && r.reason == "":
			f.violated("%s is %s and does not say why", r, r.verdict)
		}
		if r.pickedUp > 1 {
			f.violated("%s was picked up by %d tries", r, r.pickedUp)
		}
	}
	return f
}

func (h *history) claims() Finding {
	f := Finding{
		Promise: 4, Name: "every claim opens its run",
		How: "a claim opens, in its own transaction, the connector's run with its reason and slot; no other run is opened",
	}
	ledger := h.ledger()
	for l, events := range h.byLife {
		for _, e := range events {
			if e.claimed() {
				f.Checked++
				h.claim(&f, ledger, l, e)
			}
		}
	}
	for _, r := range h.ordered {
		if r.opened > 0 && !r.claimed {
			f.violated("%s was opened and nobody claimed its connector", r)
		}
	}
	return f
}

func (h *history) claim(f *Finding, ledger ledger, l life, e *event) {
	r := h.runOf(e.Run)
	if r == nil || r.life != l || r.opened == 0 || r.openedBy != e.Tx {
		f.violated("%s was claimed and opened no run", e)
		return
	}
	if r.claimed {
		f.violated("%s was claimed twice", r)
	}
	r.claimed = true
	reason := e.OldReason
	switch {
	case e.From == "SYNCING":
		reason = "rescue"
	case e.Asked:
		reason = "manual"
	}
	switch {
	case r.trigger != reason:
		f.violated("%s was due for %q, and its run says %q", e, reason, r.trigger)
	case reason != "schedule" && r.slot != nil:
		f.violated("%s answers slot %s, and was due for %q", r, r.slot, reason)
	case reason == "schedule" && (e.OldSlot == nil || !ledger.covers(l, *e.OldSlot)):
		f.violated("%s was due for slot %v, which is not in the ledger", e, e.OldSlot)
	case r.slot != nil && !r.slot.After(e.answeredThrough()):
		f.violated("%s answers slot %s, and %s was due", r, r.slot, e.OldSlot)
	case r.slot != nil && r.slot.Before(*e.OldSlot) && !h.windowHad(*r.slot):
		f.violated("%s answers slot %s before %s, which was due, and no blackout window had it", r, r.slot, e.OldSlot)
	}
}

// answeredThrough is up to where no claim of what is due answers a slot. A slot before the one that is due has no line yet where a blackout
// window skipped it that is gone by now: `catch_up` decides about it anew.
func (e *event) answeredThrough() time.Time {
	if e.OldPlanned != nil && e.OldPlanned.Before(*e.OldSlot) {
		return *e.OldPlanned
	}
	return e.OldSlot.Add(-1)
}

func (h *history) plans() Finding {
	f := Finding{
		Promise: 4, Name: "a run with parameters leaves the plan", Checked: len(h.events),
		How: "what a connector is due for, its failures and the moments of its own syncs are the same before, in and after a run with parameters",
	}
	h.seen(&f, "plan")
	return f
}

func (h *history) flights() Finding {
	f := Finding{
		Promise: 4, Name: "in flight is an open run",
		How: "at every commit a connector in flight has one open run of its type and configuration, SYNCING by a try, and no other has one; a plan is kept while it has parameters",
	}
	h.seen(&f, "flight")
	for _, e := range h.events {
		if e.Op != "INSERT" && (e.From != e.To || !same(e.OldRun, e.Run)) {
			f.Checked++
		}
	}
	return f
}

// ledger is what rows there are for the slots of each connector.
type ledger map[life]*slots

type slots struct {
	runs   map[int64]int // how often a single slot is there
	ranges []*run
	rows   []*run
}

func (h *history) ledger() ledger {
	l := ledger{}
	for _, r := range h.ordered {
		if r.slot == nil {
			continue
		}
		s := l[r.life]
		if s == nil {
			s = &slots{runs: map[int64]int{}}
			l[r.life] = s
		}
		s.rows = append(s.rows, r)
		if r.noRun() {
			s.ranges = append(s.ranges, r)
			continue
		}
		s.runs[r.slot.UnixMicro()]++
	}
	return l
}

// covers says whether a slot has a row, or lies in the range of one that was missed.
func (l ledger) covers(connector life, slot time.Time) bool {
	s := l[connector]
	if s == nil {
		return false
	}
	if s.runs[slot.UnixMicro()] > 0 {
		return true
	}
	for _, r := range s.ranges {
		if !slot.Before(*r.slot) && !slot.After(*r.last) {
			return true
		}
	}
	return false
}

func (h *history) passedSlots(opts Options) Finding {
	f := Finding{
		Promise: 4, Name: "every slot that came is answered",
		How: "a slot that was due and is not any more has its row, whatever took it away; no row has a slot that never came",
	}
	ledger := h.ledger()
	for l, events := range h.byLife {
		for i, e := range events {
			if e.OldSlot == nil || e.OldSlot.After(e.earliest(opts.ClockStepped)) || e.Slot != nil && e.Slot.Equal(*e.OldSlot) {
				continue
			}
			f.Checked++
			if !ledger.covers(l, *e.OldSlot) && !e.cameTooEarly(events[i+1:], opts.ClockStepped) {
				f.violated("%s: slot %s passed without a row", e, e.OldSlot)
			}
		}
	}
	return f
}

// cameTooEarly says whether the slot that the change took away was still to come at a later one, since Postgres's clock had stepped back, so far at most. Where the
// slot stood then, its passing is judged by a change of its own.
func (e *event) cameTooEarly(later []*event, stepped time.Duration) bool {
	return slices.ContainsFunc(later, func(l *event) bool { return l.At.Before(*e.OldSlot) && e.At.Sub(l.At) <= stepped })
}

// earliest is the earliest time that the change's transaction can have seen: Postgres's clock may have stepped back since it began, so far at most.
func (e *event) earliest(stepped time.Duration) time.Time {
	if e.At.Before(e.Began) && e.Began.Sub(e.At) <= stepped {
		return e.At
	}
	return e.Began
}

func (h *history) slotsOnce() Finding {
	f := Finding{
		Promise: 4, Name: "no slot twice",
		How: "of a connector's rows in the ledger no two answer, or miss, the same slot",
	}
	for _, s := range h.ledger() {
		rows := slices.Clone(s.rows)
		slices.SortStableFunc(rows, func(a, b *run) int { return a.slot.Compare(*b.slot) })
		for i, r := range rows {
			f.Checked++
			if i > 0 && !r.slot.After(rows[i-1].through()) {
				f.violated("%s answers slot %s, and so does %s", r, r.slot, rows[i-1])
			}
		}
	}
	return f
}

// through is the last slot of a row.
func (r *run) through() time.Time {
	if r.last != nil {
		return *r.last
	}
	return *r.slot
}
