package evidence

import (
	"fmt"
	"time"

	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/slots"
)

// policies says what the schedule makes of slots that come at a bad time.
func (x *explanation) policies() {
	c := x.Connector
	planned := text(c.DueReason, "") == "schedule" && c.NextSyncAt != nil
	isCron := c.ScheduleCron != nil
	x.calendar()
	x.blackouts()
	if c.Condition != nil {
		x.fact("condition %s: it is asked before a slot runs, and skips the slot where it is not met", *c.Condition)
		if c.UnmetAt != nil && c.UnmetCount != nil {
			x.fact("it was not met for the last %s, at last %s", plural(int64(*c.UnmetCount), "slot"), clock.InZone(*c.UnmetAt, x.Now))
		}
	}
	if _, held := x.held(); !held && planned && c.SlotAt != nil && c.SlotAt.Before(*c.NextSyncAt) {
		x.fact("put off: its slot was %s, and what an outage has left is spread over some time", clock.InZone(*c.SlotAt, x.Now))
	}
	if planned && !isCron && c.RefreshFreqMinutes != nil && c.SpreadPercent > 0 {
		x.fact("spread: its slots keep a place of their own, up to %d%% of the interval earlier", c.SpreadPercent)
	}
	if isCron && c.OncePer != nil {
		if c.SyncedFor != nil && c.NextSyncAt != nil {
			x.fact("once per %s: the last sync that completed was for %s; other slots of that %s are skipped", *c.OncePer, clock.InZone(*c.SyncedFor, x.Now), *c.OncePer)
		} else {
			x.fact("once per %s: slots behind a completed sync of the same %s are skipped", *c.OncePer, *c.OncePer)
		}
	}
	if isCron && c.Overlap == slots.OverlapQueue {
		x.fact("overlap queue: of slots that come while a sync is under way the latest runs right after it")
	} else if isCron && c.RunID != nil {
		x.fact("overlap skip: slots that come while this sync is under way are skipped")
	}
	if c.DeadlineMinutes != nil {
		deadline := time.Duration(*c.DeadlineMinutes) * time.Minute
		switch {
		case planned && c.SlotAt != nil && c.SlotAt.Add(deadline).Before(x.Now):
			x.fact("deadline %s: its slot was not claimed by %s; when its turn comes it is missed, and a later one runs if it is not too late", clock.Span(deadline), clock.InZone(c.SlotAt.Add(deadline), x.Now))
		case planned && c.SlotAt != nil:
			x.fact("deadline %s: unless it is claimed by %s its slot is missed", clock.Span(deadline), clock.InZone(c.SlotAt.Add(deadline), x.Now))
		default:
			x.fact("deadline %s: a slot that is not claimed by then is missed", clock.Span(deadline))
		}
	}
	switch c.CatchUp {
	case slots.CatchUpNone:
		x.fact("catch_up none: slots that nobody claims in time are missed")
	case slots.CatchUpAll:
		x.fact("catch_up all: of slots that nobody has claimed the latest %d run", c.CatchUpMost)
	}
	if c.CatchUpMinutes != nil {
		x.fact("catch_up_minutes: slots older than %s are missed", clock.Span(time.Duration(*c.CatchUpMinutes)*time.Minute))
	}
}

// calendar says what the calendar of the schedule makes of this moment.
func (x *explanation) calendar() {
	k := x.Calendar
	if k == nil || x.Connector.ScheduleCron == nil && x.Connector.RefreshFreqMinutes == nil {
		return
	}
	if x.CalendarUnknown != nil {
		x.fact("%s, and no slot runs: %s", slots.Unreadable(k.Name), x.CalendarUnknown)
		return
	}
	says := "its slots do not run on its times"
	if k.Use == slots.Only {
		says = "its slots run on its times alone"
	}
	now := "slots of now run"
	if why, until := k.Closed(x.Now); why != "" {
		now = fmt.Sprintf("slots of now are skipped: %s, until %s", why, clock.InZone(until, x.Now))
	}
	x.fact("calendar %s: %s; %s", k.Name, says, now)
}

// blackouts says which windows may hold it, and what stands now.
func (x *explanation) blackouts() {
	for _, problem := range x.BlackoutProblems {
		x.fact("%v", problem)
	}
	for i := range x.Blackouts {
		b := &x.Blackouts[i]
		mode := "slots within it wait for its end"
		if b.Skip {
			mode = "slots within it are skipped"
		}
		h, stands := slots.Hold(x.Blackouts[i:i+1], x.Connector.ID, x.Now, time.Time{})
		if !stands {
			x.fact("blackout %s: it does not stand now; %s", b.Name, mode)
			continue
		}
		x.fact("%s stands now: no run begins; %s; an administrator lets it run: `echomind blackouts set %s … --except %d`", h.Says(), mode, b.Name, x.Connector.ID)
	}
}

// held says whether a window has put off what it is due for.
func (x *explanation) held() (slots.Held, bool) {
	c := x.Connector
	h, stands := slots.Hold(x.Blackouts, c.ID, x.Now, time.Time{})
	if !stands || c.NextSyncAt == nil || c.SlotAt != nil && !c.SlotAt.Before(*c.NextSyncAt) {
		return h, false
	}
	if h.End.IsZero() {
		return h, c.NextSyncAt.After(x.Now)
	}
	return h, !c.NextSyncAt.Before(h.End) && !c.NextSyncAt.After(h.End.Add(h.Blackout.Spread))
}
