package audit

import (
	"slices"
	"strings"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/chaos/source"
)

// Reasons of failed runs.
const (
	transient = string(lifecycle.TransientFailure)
	permanent = string(lifecycle.PermanentFailure)
	lost      = string(lifecycle.WorkerLost)
	inTransit = string(lifecycle.LostInTransit)
	tooLong   = string(lifecycle.TookTooLong)
)

// mayFail lists how a run of a configuration may fail.
func (r *run) mayFail(c configured, opts Options) []string {
	var reasons []string
	if opts.WorkersLost {
		reasons = append(reasons, lost)
	}
	if opts.MessagesLost {
		reasons = append(reasons, inTransit)
	}
	if slices.Contains(opts.Foreign, c.kind) {
		switch {
		case r.pickedUp == 0: // it has done nothing of it yet
			return reasons
		case r.drained: // it may have said that it has sent what it has not
			reasons = append(reasons, inTransit)
		}
		return append(reasons, transient, permanent, tooLong, lost)
	}
	if c.synthetic == nil {
		if c.troubled {
			reasons = append(reasons, transient, permanent, tooLong, lost)
		}
		return reasons
	}
	switch c.synthetic.Trouble {
	case source.Fail, source.Panic:
		reasons = append(reasons, transient)
	case source.Permanent:
		reasons = append(reasons, permanent)
	case source.Hang:
		reasons = append(reasons, transient, tooLong, lost)
	}
	return reasons
}

func (h *history) ownFailures(opts Options) Finding {
	f := Finding{
		Promise: 3, Name: "failures are the source's",
		How: "a run fails only as its own source does, or a job of the system because its statement took too long; lost workers and messages only where the harness lost some",
	}
	for _, r := range h.ordered {
		if c, exists := h.configOf(r); exists && c.synthetic != nil && c.synthetic.Trouble == source.Kill {
			opts.WorkersLost = true // it kills the others in its process
		}
	}
	for _, r := range h.ordered {
		c, exists := h.configOf(r)
		if r.verdict == "" || r.noRun() {
			continue
		}
		f.Checked++
		switch {
		case !exists:
			f.violated("%s has a configuration that no connector ever had", r)
		case h.ofSystem(r) && r.reason == transient && strings.HasSuffix(r.said, "(SQLSTATE 57014)"): // its statement took too long
		case r.refused && opts.Forged, opts.FailAtWill[r.life.connector] && r.reason != lost && r.reason != inTransit:
		case r.verdict == "failed" && !slices.Contains(r.mayFail(c, opts), r.reason):
			trouble := ""
			if c.synthetic != nil {
				trouble = c.synthetic.Trouble
			}
			f.violated("%s failed: %s; the trouble of its source is %q", r, r.reason, trouble)
		}
	}
	return f
}

// ofSystem says whether a run is of a job of the system, which nobody owns.
func (h *history) ofSystem(r *run) bool {
	events := h.byLife[r.life]
	return len(events) > 0 && events[0].Owner == 0
}

func (h *history) neverFail(opts Options) Finding {
	f := Finding{
		Promise: 3, Name: "nothing starved is failed", How: "no run of a type that only waits has failed, unless its messages were destroyed",
	}
	for _, r := range h.ordered {
		if c, _ := h.configOf(r); !slices.Contains(opts.NeverFail, c.kind) || r.verdict == "" {
			continue
		}
		f.Checked++
		if r.verdict == "failed" && !(r.refused && opts.Forged) && (r.reason != inTransit || !opts.MessagesLost) && (r.reason != lost || !opts.CommitsLost) {
			f.violated("%s failed: %s", r, r.reason)
		}
	}
	return f
}

func (h *history) disabled() Finding {
	f := Finding{
		Promise: 3, Name: "DISABLED by policy or user",
		How: "a connector DISABLED by a failure has failed max_retries times in a row, by the ledger and by its own count",
	}
	for _, events := range h.byLife {
		row := 0 // failures since the last success
		before := 0
		for _, e := range events {
			counted := e.Failures - before
			before = e.Failures
			r := h.runOf(e.OldRun)
			left := e.From == "SYNCING" && !same(e.OldRun, e.Run) && r != nil && !r.asked
			switch {
			case e.Reconfigured || e.From == "DISABLED" && e.To == "ACTIVE":
				row = 0
			case left && r.synced():
				row = 0
			case left && r.verdict == "failed" && r.reason != inTransit && (r.reason != tooLong || r.checkpointNo == 0):
				row++
			case !left && e.OldRun == nil && e.Run == nil && counted == 1: // its condition has failed
				row++
			case !left && e.OldRun == nil && e.Run == nil && counted < 0: // or is not met
				row = 0
			}
			if e.To != "DISABLED" || e.From == "DISABLED" || e.From == "" {
				continue
			}
			f.Checked++
			byUser := !left || r.verdict != "failed"
			if !byUser && (e.Failures < e.MaxRetries || row < e.MaxRetries) {
				f.violated("%s was disabled after %d failures of %d; the ledger has %d in a row", e, e.Failures, e.MaxRetries, row)
			}
		}
	}
	return f
}
