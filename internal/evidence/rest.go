package evidence

import (
	"fmt"
	"strings"
	"time"

	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/cron"
)

// atRest is ACTIVE or ERROR.
func (x *explanation) atRest() {
	c := x.Connector
	failed := c.Status == inError
	waits := c.NextSyncAt != nil && text(c.DueReason, "") == "wait"
	switch {
	case failed && waits:
		x.fact("documents of its last sync were lost in transit; they are fetched again then")
	case failed:
		x.fact("error: %s", text(c.StatusMessage, "none was given"))
	}
	h, held := x.held()
	switch {
	case c.NextSyncAt != nil && !c.NextSyncAt.After(x.Now):
		x.due()
	case c.WaitsForKey != nil: // for a run with parameters
		x.waitsForKey()
	case held:
		x.conclude(InBlackout, fmt.Sprintf("it is due, as %s, and waits: %s", text(c.DueReason, "planned"), h.Says()),
			fmt.Sprintf("it runs %s; an administrator lets it run before: `echomind blackouts set %s … --except %d`", clock.Until(*c.NextSyncAt, x.Now), h.Blackout.Name, c.ID))
	case waits:
		x.fact("no failure is counted for the wait")
		if clock.PutOff(c.PutOffSince, x.Now) != "" {
			x.fact("no sync has completed or come further since then: the log of its worker says what the source answers, and to what")
		}
		x.conclude(ToldToWait, clock.WaitInZone(text(c.StatusMessage, "its source asked us to wait"), *c.NextSyncAt, x.Now)+clock.PutOff(c.PutOffSince, x.Now),
			fmt.Sprintf("it is tried again %s; `echomind connectors trigger %d` tries now", clock.Until(*c.NextSyncAt, x.Now), c.ID))
	case c.NextSyncAt != nil && failed && c.AsksCondition:
		x.conclude(BackingOff, fmt.Sprintf("its condition failed, or its last sync; its condition is asked again %s", clock.Until(*c.NextSyncAt, x.Now)),
			fmt.Sprintf("it runs then if it is met; `echomind connectors trigger %d` runs it now, without asking", c.ID))
	case c.NextSyncAt != nil && failed:
		x.conclude(BackingOff, fmt.Sprintf("its last sync failed; the next try is %s", clock.Until(*c.NextSyncAt, x.Now)),
			fmt.Sprintf("it is tried again then; `echomind connectors trigger %d` tries now", c.ID))
	case c.NextSyncAt != nil:
		x.clocks()
		x.conclude(WaitsForSlot, fmt.Sprintf("it is not due before %s", clock.InZone(*c.NextSyncAt, x.Now)),
			fmt.Sprintf("it runs %s, as %s; `echomind connectors trigger %d` runs it now",
				clock.Until(*c.NextSyncAt, x.Now), text(c.DueReason, "planned"), c.ID))
	case failed && !c.NeedsPlan && c.DueReason == nil:
		x.conclude(FailedForGood, "it failed in a way that trying again does not mend",
			fmt.Sprintf("nothing, until you change what is wrong (`echomind connectors update %d …`) or trigger it", c.ID))
	case c.NeedsPlan:
		x.conclude(BeingPlanned, "its next time is still to be worked out from "+schedule(x),
			x.lookout("the scheduler plans it within "+clock.Span(x.Settings.CheckInterval)))
	case c.ScheduleCron != nil:
		next := fmt.Sprintf("nothing, until you correct it: `echomind connectors update %d --cron … --time-zone …`", c.ID)
		if x.CalendarUnknown != nil {
			next = fmt.Sprintf("nothing, until calendar `%s` is corrected, or it names another: `echomind connectors update %d --calendar …`", x.Calendar.Name, c.ID)
		}
		x.conclude(CannotBePlanned, "no time can be worked out from "+schedule(x)+": "+text(c.StatusMessage, "it never comes due"), next)
	case c.Follows && (c.RefreshFreqMinutes == nil || *c.RefreshFreqMinutes == 0):
		x.follows()
	case c.RefreshFreqMinutes == nil:
		x.conclude(ManualOnly, "it never runs by itself: it has no refresh interval and no cron schedule",
			fmt.Sprintf("nothing, until you run `echomind connectors trigger %d`", c.ID))
	default:
		x.conclude(OnceOnly, "it runs once, and has: its refresh interval is 0", fmt.Sprintf(
			"nothing, until you run `echomind connectors trigger %d`, or set an interval with `update %d --refresh`", c.ID, c.ID))
	}
}

// asked says when a run with parameters is due; one that is, and nothing else, is what keeps the connector waiting.
func (x *explanation) asked() {
	c := &x.Connector
	if c.ParametersDueAt == nil {
		return
	}
	if c.RunID != nil {
		x.fact("a run with parameters was asked for; it follows this one")
		return
	}
	x.fact("a run with parameters was asked for; it is due %s", clock.Until(*c.ParametersDueAt, x.Now))
	if !c.ParametersDueAt.After(x.Now) && (c.NextSyncAt == nil || c.NextSyncAt.After(x.Now) || c.AsksCondition || c.AsksUpstreams) {
		manual := "manual"
		c.NextSyncAt, c.DueReason, c.SlotAt, c.AsksCondition, c.AsksUpstreams = c.ParametersDueAt, &manual, nil, false, false
	}
}

// clocks says what the schedule made of changes of the clocks between its last slot and the next.
func (x *explanation) clocks() {
	c := x.Connector
	if c.ScheduleCron == nil || text(c.DueReason, "") != "schedule" {
		return
	}
	s, err := cron.Parse(cron.Columns(*c.ScheduleCron, c.TimeZone, c.ID, c.DstGap, c.DstOverlap))
	if err != nil {
		return // it was planned under an earlier time zone database
	}
	x.fact("schedule: %q in %s; next slot %s", *c.ScheduleCron, c.TimeZone, s.Local(*c.NextSyncAt))
	since := x.Now
	if c.PlannedThrough != nil {
		since = *c.PlannedThrough
	}
	for _, d := range s.Decisions(since, *c.NextSyncAt) {
		x.fact("%s", change(d, c.DstGap != nil, c.DstOverlap != nil))
	}
}

func change(d cron.Decision, gapGiven, overlapGiven bool) string {
	const at = "15:04"
	slots := d.First.Format(at)
	if d.Count > 1 {
		slots += " to " + d.Last.Format(at) + fmt.Sprintf(" (%d)", d.Count)
	}
	clocks := fmt.Sprintf("on %s the clocks go from %s to %s", d.Before.Format("2006-01-02"), d.Before.Format(at), d.Behind.Format(at))
	by := func(column, policy string, given bool) string {
		if given {
			return column + " " + policy
		}
		return column + " " + policy + ", the default of such a schedule"
	}
	switch {
	case d.Gap == cron.GapAfter:
		return fmt.Sprintf("%s: slot %s, which they leave out, runs at %s (%s)", clocks, slots, d.Behind.Format(at), by("dst_gap", "after", gapGiven))
	case d.Gap == cron.GapBefore:
		return fmt.Sprintf("%s: slot %s, which they leave out, runs in the last minute before (%s)", clocks, slots, by("dst_gap", "before", gapGiven))
	case d.Gap != "":
		return fmt.Sprintf("%s: slot %s, which they leave out, does not run (%s)", clocks, slots, by("dst_gap", "skip", gapGiven))
	case d.Overlap == cron.OverlapBoth:
		return fmt.Sprintf("%s: slot %s, which they show twice, runs both times (%s)", clocks, slots, by("dst_overlap", "both", overlapGiven))
	}
	return fmt.Sprintf("%s: slot %s, which they show twice, runs the %s time (%s)", clocks, slots, d.Overlap,
		by("dst_overlap", string(d.Overlap), overlapGiven))
}

func schedule(x *explanation) string {
	return fmt.Sprintf("its schedule %q in %s", text(x.Connector.ScheduleCron, ""), x.Connector.TimeZone)
}

// due tells apart who keeps a due connector waiting.
func (x *explanation) due() {
	c := x.Connector
	age := x.Now.Sub(*c.NextSyncAt)
	x.fact("due since %s (%s) as %s", clock.InZone(*c.NextSyncAt, x.Now), clock.Span(age), text(c.DueReason, "planned"))
	if c.AsksUpstreams {
		x.follows()
		return
	}
	if c.AsksCondition {
		x.asks(age)
		return
	}
	if c.WaitsForKey != nil {
		x.waitsForKey()
		return
	}
	if x.IsGlance {
		x.conclude(DueNow, fmt.Sprintf("it is due since %s, and is to be dispatched", clock.InZone(*c.NextSyncAt, x.Now)), x.lookout("the scheduler dispatches it in its turn"))
		return
	}
	limit := x.Settings.MaxConcurrent
	if c.TypeCap != nil {
		limit = int(*c.TypeCap)
	}
	most := "no cap"
	if limit > 0 {
		most = fmt.Sprintf("at most %d", limit)
	}
	x.fact("%s in flight, %s; %d due before it", plural(c.InFlight, c.Type+" connector"), most, c.DueBefore)
	places, bound := x.ownerPlaces(limit) // of the system's types, which have no cap, it is not
	if bound {
		x.fact("%d of them of user %d, who may have %d", c.OwnerInFlight, *c.UserID, places)
	}
	seen, idle := x.scheduler()
	if x.Streams.Unknown != nil {
		x.fact("NATS: %v", x.Streams.Unknown)
	}
	refused := x.Connector.TypePublishError
	if refused != nil {
		x.fact("NATS has not acknowledged the last message of a %s connector: %s", c.Type, *refused)
	}
	switch {
	case !seen:
		x.conclude(SchedulerAway, "it is due, and no scheduler runs that could dispatch it",
			"it is dispatched as soon as one runs; "+x.start())
	case x.Streams.Unknown != nil:
		x.conclude(BrokerAway, "it is due, and NATS, which is to carry its message, does not answer",
			"it stays due, and is dispatched when NATS is back; check NATS_URL and the server")
	case refused != nil:
		x.conclude(BrokerRefuses, fmt.Sprintf("it is due, and NATS takes no message for a %s connector: %s", c.Type, *refused),
			"it stays due; one connector of its type at a time tries, and all are dispatched when NATS takes messages again: look at what "+
				"the server has left of its limits, and at what the scheduler's user may publish")
	case limit > 0 && c.InFlight >= int64(limit):
		x.conclude(CapFull, fmt.Sprintf("as many %s connectors as may be are in flight", c.Type), fmt.Sprintf(
			"each verdict among them lets the longest due one in; `echomind types add %s --max-concurrent N` allows more", c.Type))
	case bound && c.OwnerInFlight >= int64(places):
		x.conclude(OwnerFull, "it waits for its owner's places: the owner has as many connectors of the type in flight as one may have", fmt.Sprintf(
			"each verdict among the owner's lets its longest due one in; SCHEDULER_OWNER_SHARE_PERCENT, or max_concurrent_syncs of user_id %d in owner_quotas, allows more",
			*c.UserID))
	case c.DispatchedSince && c.DueBefore > 0:
		x.conclude(DueNow, "others that are due for longer are dispatched before it", "the scheduler dispatches it in its turn")
	case idle || age > x.schedulerActive():
		x.conclude(SchedulerIdle, "it is due and nothing is in its way, but no scheduler dispatches it",
			"one that works looks at least every "+clock.Span(x.Settings.CheckInterval)+"; if none does, look at the scheduler's log and "+
				"/readyz: "+strings.Join([]string{"SCHEDULER_ENABLED may be false there", "none of several may lead",
				"its own NATS may be away", "its SCHEDULER_MAX_CONCURRENT_SYNCS may be lower than here"}, ", "))
	default:
		x.conclude(DueNow, "it became due a moment ago", "where a scheduler leads, it is dispatched within "+
			clock.Span(x.Settings.CheckInterval)+": ask again then")
	}
}

// waitsForKey is of a connector that found a concurrency key full.
func (x *explanation) waitsForKey() {
	c := x.Connector
	key := *c.WaitsForKey
	held := "nobody holds a place of it"
	if c.KeyHeld > 0 && c.KeyHeldSince != nil {
		held = fmt.Sprintf("%s in flight, the first since %s", plural(c.KeyHeld, "run"), clock.InZone(*c.KeyHeldSince, x.Now))
		if c.KeyHolder != nil { // of those that the reader may see
			held += fmt.Sprintf(", of connector %d", *c.KeyHolder)
		}
	}
	seen, idle := true, false
	if !x.IsGlance {
		seen, idle = x.scheduler()
	}
	hasPlace := c.KeyMost == nil || c.KeyHeld < int64(*c.KeyMost)
	switch {
	case x.IsGlance: // nothing was counted
		x.conclude(WaitsForKey, fmt.Sprintf("it waits for concurrency key %s", key), x.lookout("the scheduler makes it due in its turn, when the key has a place"))
	case hasPlace && !seen:
		x.conclude(SchedulerAway, fmt.Sprintf("it waited for concurrency key %s, which has a place, and no scheduler runs that could dispatch it", key),
			"it is dispatched as soon as one runs; "+x.start())
	case hasPlace && idle:
		x.conclude(SchedulerIdle, fmt.Sprintf("it waited for concurrency key %s, which has a place, and no scheduler dispatches it", key),
			"look at the scheduler's log and /readyz")
	case c.KeyMost == nil:
		x.fact("concurrency key %s has no limit any more", key)
		x.conclude(WaitsForKey, fmt.Sprintf("it waited for concurrency key %s, whose limit is removed", key), "the scheduler makes it due at one of its next looks")
	case hasPlace:
		x.fact("concurrency key %s: at most %d in flight; %s", key, *c.KeyMost, held)
		x.conclude(WaitsForKey, fmt.Sprintf("it waits for its turn at concurrency key %s, which has a place", key), "the scheduler makes the next owner's due at its next look")
	case *c.KeyMost == 0:
		x.fact("concurrency key %s: none in flight from now on; %s", key, held)
		x.conclude(WaitsForKey, fmt.Sprintf("concurrency key %s has no places: its limit is 0", key), fmt.Sprintf(
			"nothing, until an administrator allows more with `echomind limits set %s N`", key))
	default:
		x.fact("concurrency key %s: at most %d in flight; %s", key, *c.KeyMost, held)
		x.conclude(WaitsForKey, fmt.Sprintf("concurrency key %s is full: %s", key, held), fmt.Sprintf(
			"the scheduler makes the next owner's longest due one due when fewer than %d are; administrators allow more with `echomind limits set %s N`", *c.KeyMost, key))
	}
}

// follows is of a connector that runs after others, and waits for them.
func (x *explanation) follows() {
	c := x.Connector
	by := fmt.Sprintf("; `echomind connectors trigger %d` runs it now, without waiting", c.ID)
	seen, idle := x.scheduler()
	switch {
	case c.UpstreamID != nil:
		ended := "no run of it that counts has ended"
		if c.UpstreamEndedAt != nil {
			ended = "its last run that counts ended " + clock.InZone(*c.UpstreamEndedAt, x.Now) + ", and was used already, or its slot is too old"
		}
		x.fact("upstream %d (%s) is %s; %s", *c.UpstreamID, text(c.UpstreamName, ""), text(c.UpstreamStatus, ""), ended)
		next := fmt.Sprintf("it runs when that is done; `echomind why %d` says what that waits for", *c.UpstreamID)
		if text(c.UpstreamStatus, "") == "DISABLED" {
			next = fmt.Sprintf("nothing, until that is enabled (`echomind connectors enable %d`), or the wait is over", *c.UpstreamID)
		}
		x.conclude(WaitsForUpstream, fmt.Sprintf("it runs after connector %d, which is %s", *c.UpstreamID, text(c.UpstreamStatus, "")), next+by)
	case !seen:
		x.conclude(SchedulerAway, "it runs after others, and no scheduler runs that looks at them",
			"it goes on as soon as one runs; "+x.start())
	case idle:
		x.conclude(SchedulerIdle, "it runs after others, and no scheduler looks at them", "look at the scheduler's log and /readyz")
	default:
		x.conclude(WaitsForUpstream, "it runs after others, which are looked at now, or which you do not see", "it runs when they are done"+by)
	}
}

// asks is of a job that is due, and whose condition comes first.
func (x *explanation) asks(age time.Duration) {
	c := x.Connector
	seen, idle := x.scheduler()
	asked := "it runs where it is met, and its slot is skipped where not"
	switch {
	case !seen:
		x.conclude(SchedulerAway, "it is due, and no scheduler runs that could ask its condition", "it is asked as soon as one runs; "+x.start())
	case idle:
		x.conclude(SchedulerIdle, "it is due, and no scheduler asks its condition", "look at the scheduler's log and /readyz; "+asked)
	case age > time.Minute:
		x.conclude(AsksCondition, fmt.Sprintf("it is due, and its condition %s has not been answered yet", text(c.Condition, "")),
			asked+"; conditions that are slow wait for one another: scheduler_condition_duration_seconds says how long each takes")
	default:
		x.conclude(AsksCondition, fmt.Sprintf("it is due, and its condition %s is asked first", text(c.Condition, "")), asked)
	}
}

// ownerPlaces says how many of a type's places the owner may hold; bound is false where nothing but the cap counts.
func (x *explanation) ownerPlaces(limit int) (places int, bound bool) {
	c := x.Connector
	switch {
	case limit == 0:
		return 0, false
	case c.OwnerCap != nil:
		return min(limit, int(*c.OwnerCap)), *c.OwnerCap > 0
	}
	return max(1, limit*x.Settings.OwnerShare/100), isTrue(c.HasOtherOwners)
}

func (x *explanation) disabled() {
	c := x.Connector
	x.fact("reason: %s", text(c.StatusMessage, "none was given"))
	next := fmt.Sprintf("nothing, until you run `echomind connectors enable %d`", c.ID)
	if c.FailureCount >= c.MaxRetries {
		x.conclude(DisabledByFailures, "it failed too often in a row and was disabled", next+
			"; correct what is wrong first, or it fails again")
		return
	}
	x.conclude(DisabledByUser, "it is disabled", next)
}
