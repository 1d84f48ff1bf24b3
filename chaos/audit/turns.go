package audit

import (
	"time"

	"github.com/google/uuid"
)

// turn is one run's time in SYNCING.
type turn struct {
	session uuid.UUID
	from    time.Time
	open    bool
	lease   *time.Time // when it ended
	lost    bool
}

func (h *history) workersTakeTurns() Finding {
	f := Finding{
		Promise: 2, Name: "one worker at a time",
		How: "no run reaches SYNCING while another of its connector is there, or was given up with a lease that still ran",
	}
	h.seen(&f, "lease")
	for id, events := range h.byConnector {
		var last *turn
		for _, e := range events {
			if e.From == "SYNCING" && e.To != "SYNCING" && last != nil {
				r := h.runOf(e.OldSession)
				last.open, last.lease, last.lost = false, e.OldLease, r != nil && r.reason == "worker lost"
			}
			if e.To != "SYNCING" || (e.From == "SYNCING" && same(e.OldSession, e.Session)) || e.Session == nil {
				continue
			}
			f.Checked++
			now := &turn{session: *e.Session, from: e.At, open: true}
			if last != nil {
				switch {
				case last.open:
					f.violated("connector %d: run %s is SYNCING at %s, and so is %s", id, now.session, now.from, last.session)
				case last.lost && last.lease != nil && last.lease.After(now.from):
					f.violated("connector %d: run %s is SYNCING at %s, and the lease of %s, given up as lost, runs until %s",
						id, now.session, now.from, last.session, last.lease)
				}
			}
			last = now
		}
	}
	return f
}

func same(a, b *uuid.UUID) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func (h *history) fence() Finding {
	f := Finding{
		Promise: 2, Name: "no stale writer", Checked: h.written,
		How: "whoever commits a document's row has an open run of its connector; only what is gone or outdated is swept",
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
