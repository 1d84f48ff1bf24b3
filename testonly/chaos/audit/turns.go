package audit

import (
	"time"

	"github.com/google/uuid"
)

// turn is one try's time with a run of a connector.
type turn struct {
	run, try uuid.UUID
	open     bool
	lease    *time.Time // when it ended
	lost     bool
}

func (h *history) workersTakeTurns(opts Options) Finding {
	f := Finding{
		Promise: 2, Name: "one worker at a time",
		How: "no try picks a run up while another of its connector is at it, or was given up with a lease that still ran",
	}
	h.seen(&f, "lease")
	last := map[int32]*turn{}
	for _, s := range h.steps {
		before := last[s.Connector]
		switch s.What {
		case "pick up":
			f.Checked++
			now := &turn{run: s.ID, open: true}
			if s.Try != nil {
				now.try = *s.Try
			}
			if before != nil {
				switch {
				case before.open:
					f.violated("connector %d: try %s of run %s is at it at %s, and so is try %s of run %s",
						s.Connector, now.try, now.run, s.At, before.try, before.run)
				case opts.ClockStepped == 0 && before.lost && before.lease != nil && before.lease.After(s.At):
					f.violated("connector %d: run %s is SYNCING at %s, and the lease of %s, given up as lost, runs until %s",
						s.Connector, now.run, s.At, before.run, before.lease)
				}
			}
			last[s.Connector] = now
		case "end":
			r := h.runs[s.ID]
			if before != nil && before.run == s.ID {
				before.open, before.lease, before.lost = false, s.Lease, r.reason == lost
			}
			if r.reason == lost && s.Worker == nil && s.PickedUp != nil && s.At.Sub(*s.PickedUp) < opts.ForeignTimeout {
				f.violated("%s has no lease, and was given up %s after it was picked up; it has %s", r, s.At.Sub(*s.PickedUp), opts.ForeignTimeout)
			}
			if r.reason == lost && s.Drained {
				f.violated("%s was given up as lost, and its worker was done", r)
			}
		}
	}
	return f
}

func same(a, b *uuid.UUID) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func (h *history) fence() Finding {
	f := Finding{
		Promise: 2, Name: "no stale writer", Checked: h.written,
		How: "a document's row is committed by the try that has its connector's open run; only what is gone or outdated is swept",
	}
	h.seen(&f, "writer")
	return f
}

func (h *history) caps(opts Options) Finding {
	f := Finding{
		Promise: 2, Name: "caps", How: "a claim never brings more of a capped type in flight than its cap",
	}
	count := map[string]int{}
	for _, e := range h.events {
		was, is := inFlight(e.From), inFlight(e.To)
		if was && (!is || e.OldType != e.Type) {
			count[e.OldType]--
		}
		if is && (!was || e.OldType != e.Type) {
			count[e.Type]++
		}
		limit, capped := opts.Caps[e.Type]
		if !capped || was || !is {
			continue
		}
		f.Checked++
		if count[e.Type] > limit {
			f.violated("%s: %d of its type are in flight, and its cap is %d", e, count[e.Type], limit)
		}
	}
	return f
}
