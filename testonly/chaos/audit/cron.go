package audit

import (
	"time"

	"github.com/echomind/sync/internal/cron"
)

// plan is a time in which one cron schedule stood: its slots after from, up to and with through, are in the ledger, and those
// up to and with latest may be.
type plan struct {
	spec                  cron.Spec
	from, through, latest time.Time
}

// plans follows planned_through: where it is first set is the beginning of a plan, where it is cleared the end. What has come
// by the end is missed.
func plans(events []*event) []plan {
	var all []plan
	open := false
	for _, e := range events {
		switch {
		case e.Planned == nil:
			if open {
				p := &all[len(all)-1]
				p.through, p.latest = later(p.through, e.Began), later(p.latest, e.At)
			}
			open = false
		case !open && e.Cron != nil:
			all = append(all, plan{spec: cron.Columns(*e.Cron, e.TimeZone, e.Connector, e.DSTGap, e.DSTOverlap),
				from: *e.Planned, through: *e.Planned, latest: *e.Planned})
			open = true
		case open:
			p := &all[len(all)-1]
			p.through, p.latest = *e.Planned, *e.Planned
			if p.from.After(p.through) {
				p.from = p.through // the campaign has let slots pass
			}
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (h *history) cronSlots() Finding {
	f := Finding{
		Promise: 4, Name: "every cron slot once",
		How: "from a schedule's planning to its last claim, or to the change that ended it, each of its slots is in the ledger exactly once, answered or missed",
	}
	ledger := h.ledger()
	for l, events := range h.byLife {
		var theirs slots
		if s := ledger[l]; s != nil {
			theirs = *s
		}
		came, byInterval := map[int64]bool{}, map[int64]bool{} // slots that stood in the connector's row, and those of them that were no cron schedule's
		for _, e := range events {
			if e.Slot != nil {
				came[e.Slot.UnixMicro()] = true
				byInterval[e.Slot.UnixMicro()] = e.Cron == nil
			}
		}
		used := map[*run]bool{}
		for _, p := range plans(events) {
			checkPlan(&f, l.connector, p, theirs.rows, byInterval, used)
		}
		for _, r := range theirs.rows {
			if !used[r] && !came[r.slot.UnixMicro()] {
				f.violated("%s answers slot %s, which never came", r, r.slot)
			}
		}
	}
	return f
}

// checkPlan holds the ledger's rows against one plan. An interval that came after it may have had a slot within its time, which counts from the sync before.
func checkPlan(f *Finding, connector int32, p plan, rows []*run, byInterval map[int64]bool, used map[*run]bool) {
	schedule, err := cron.Parse(p.spec)
	if err != nil {
		f.Checked++
		f.violated("connector %d was planned by %q in %q: %s", connector, p.spec.Expression, p.spec.Zone, err)
		return
	}
	due := func(after, until time.Time) (all []time.Time) {
		for at := schedule.Next(after); !at.IsZero() && !at.After(until); at = schedule.Next(at) {
			all = append(all, at)
		}
		return all
	}
	times := map[int64]int{}
	for _, r := range rows {
		if !r.slot.After(p.from) || r.slot.After(p.latest) {
			continue
		}
		if !r.noRun() {
			used[r] = used[r] || schedule.Next(r.slot.Add(-time.Microsecond)).Equal(*r.slot)
			times[r.slot.UnixMicro()]++
			continue
		}
		missed := due(r.slot.Add(-time.Microsecond), *r.last)
		if len(missed) == 0 && byInterval[r.slot.UnixMicro()] {
			continue
		}
		used[r] = true
		for _, at := range missed {
			times[at.UnixMicro()]++
		}
		if len(missed) != r.missed {
			f.violated("%s says that %d slots were missed from %s to %s; there are %d", r, r.missed, r.slot, r.last, len(missed))
		}
	}
	for _, at := range due(p.from, p.latest) {
		f.Checked++
		if n := times[at.UnixMicro()]; n > 1 || n == 0 && !at.After(p.through) {
			f.violated("connector %d, %q: slot %s is in the ledger %d times", connector, p.spec.Expression, at, n)
		}
	}
}
