package audit

import (
	"time"
)

func (h *history) oneVerdict() Finding {
	f := Finding{
		Promise: 4, Name: "one verdict for each run",
		How: "every run is opened once and ended once, with a reason, and its row never changes again",
	}
	h.seen(&f, "verdict")
	for _, r := range h.ordered {
		f.Checked++
		switch {
		case r.verdict == "missed" && r.opened == 0 && r.ended == 1:
		case r.opened != 1 || r.ended > 1:
			f.violated("%s was opened %d times and ended %d times", r, r.opened, r.ended)
		case r.ended == 0:
			f.violated("%s is open, and everything is at rest", r)
		}
		switch {
		case r.gone:
			f.violated("%s has vanished from the ledger", r)
		case r.verdict != "" && r.verdict != "completed" && r.reason == "":
			f.violated("%s is %s and does not say why", r, r.verdict)
		}
	}
	return f
}

func (h *history) claims() Finding {
	f := Finding{
		Promise: 4, Name: "every claim opens its run",
		How: "a claim opens, in its own transaction, a run of the same session, reason and slot; no other run is opened",
	}
	ledger := h.ledger()
	for _, e := range h.events {
		if !e.claimed() {
			continue
		}
		f.Checked++
		r := h.runOf(e.Session)
		if r == nil || r.connector != e.Connector || r.opened == 0 || r.openedBy != e.Tx {
			f.violated("%s was claimed and opened no run", e)
			continue
		}
		if r.claimed {
			f.violated("%s was claimed twice", r)
		}
		r.claimed = true
		reason := e.OldReason
		if e.From == "SYNCING" {
			reason = "rescue"
		}
		switch {
		case r.trigger != reason:
			f.violated("%s was due for %q, and its run says %q", e, reason, r.trigger)
		case reason != "schedule" && r.slot != nil:
			f.violated("%s answers slot %s, and was due for %q", r, r.slot, reason)
		case reason == "schedule" && (e.OldSlot == nil || !ledger.covers(e.Connector, *e.OldSlot)):
			f.violated("%s was due for slot %v, which is not in the ledger", e, e.OldSlot)
		case r.slot != nil && r.slot.Before(*e.OldSlot):
			f.violated("%s answers slot %s, and %s was due", r, r.slot, e.OldSlot)
		}
	}
	for _, r := range h.ordered {
		if r.opened > 0 && !r.claimed {
			f.violated("%s was opened and nobody claimed its connector", r)
		}
	}
	return f
}

// ledger is what rows there are for the slots of each connector.
type ledger map[int32]*slots

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
		s := l[r.connector]
		if s == nil {
			s = &slots{runs: map[int64]int{}}
			l[r.connector] = s
		}
		s.rows = append(s.rows, r)
		if r.verdict == "missed" {
			s.ranges = append(s.ranges, r)
			continue
		}
		s.runs[r.slot.UnixMicro()]++
	}
	return l
}

// covers says whether a slot has a row, or lies in the range of one that was missed.
func (l ledger) covers(connector int32, slot time.Time) bool {
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

func (h *history) passedSlots() Finding {
	f := Finding{
		Promise: 4, Name: "every slot that came is answered",
		How: "a slot that was due and is not any more has its row, unless the user took it away; no row has a slot that never came",
	}
	ledger := h.ledger()
	for _, e := range h.events {
		if e.OldSlot == nil || e.OldSlot.After(e.At) || e.Slot != nil && e.Slot.Equal(*e.OldSlot) ||
			e.Rescheduled || e.Reconfigured || e.To == "DISABLED" || e.To == "" {
			continue
		}
		f.Checked++
		if !ledger.covers(e.Connector, *e.OldSlot) {
			f.violated("%s: slot %s passed without a row", e, e.OldSlot)
		}
	}
	return f
}
