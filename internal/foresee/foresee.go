// Package foresee says what becomes of the slots of a connector's schedule: with the code that the scheduler plans and claims by, from where the connector stands.
// It changes nothing.
package foresee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/cron"
	"github.com/echomind/sync/internal/slots"
)

// Connector is a schedule, and where it stands.
type Connector struct {
	slots.Columns
	RefreshFreqMinutes             *int32
	SpreadPercent                  int32
	Condition                      *string
	Status                         string
	DueReason                      *string
	NeedsPlan                      bool
	NextSyncAt, SlotAt, LastSyncAt *time.Time
	// RunAtOnce: the first sync of a cron schedule is at once.
	RunAtOnce bool
	// HasRun: it has an open run.
	HasRun bool
	// Calendar is the name of the one that the schedule names, and CalendarUse how.
	Calendar    *string
	CalendarUse string
	// After are those that it runs after.
	After []int32
	// KeptPlan is where it stands by itself while a run with parameters goes on.
	KeptPlan []byte
	// Type and UserID, nil = the system's, are what blackout windows ask.
	Type   string
	UserID *int32
}

// ErrCalendar is an error of a calendar that cannot be read.
var ErrCalendar = errors.New("the calendar cannot be read")

type calendarError struct{ error }

func (calendarError) Is(target error) bool { return target == ErrCalendar }

// Look is at which time somebody looks.
type Look struct {
	From, Until time.Time
	// Past: as if nothing had been done before it; else from where the connector stands.
	Past bool
	// Takes is how long each sync is to take.
	Takes time.Duration
	// Most is how many lines there are at most.
	Most int
	// IntervalSlot is the next slot of an interval that counts from a moment: moves.interval_slot.
	IntervalSlot func(ctx context.Context, c Connector, base time.Time) (time.Time, error)
	// CalendarOf is a calendar by its name, as it stands.
	CalendarOf func(ctx context.Context, name string) (zone string, entries []byte, err error)
	// BlackoutsOf are the blackout windows, as they stand.
	BlackoutsOf func(ctx context.Context) ([]blackouts.Row, error)
}

// Schedule is one schedule with what it does.
type Schedule struct {
	Schedule string `json:"schedule"`
	TimeZone string `json:"time_zone"`
	Slots    []Slot `json:"slots"`
	// Note says why none is due, where the connector's schedule is not the reason.
	Note string `json:"note,omitempty" doc:"Why none is due, where the schedule is not the reason."`
	// Cut says that there are more slots than are shown.
	Cut bool `json:"cut" doc:"There are more than are shown."`
	// After are those that each slot waits for.
	After []int32 `json:"after,omitempty" doc:"Connectors that it runs after: a slot that runs here waits for them."`
	// Condition is what is asked at each slot that runs here; whether it is met then, nobody knows now. Null where nothing is asked.
	Condition *string `json:"condition" doc:"What is asked at each slot that runs here: one that is not met then is skipped."`
}

// Slot is one slot, or several that end in the same way.
type Slot struct {
	slots.Entry
	LocalFirst string `json:"local_first"`
	LocalLast  string `json:"local_last"`
}

// Of goes through the slots of a connector, whose schedule is called so; afresh where that would be another from now on.
func (l Look) Of(ctx context.Context, c Connector, called string, afresh bool) (Schedule, error) {
	shown := Schedule{Schedule: called, TimeZone: c.Zone, Condition: c.Condition, After: c.After, Slots: []Slot{}}
	zone, err := time.LoadLocation(c.Zone)
	if err != nil {
		return shown, fmt.Errorf("%w: time_zone %q: write an IANA name such as Europe/Berlin", cron.ErrSchedule, c.Zone)
	}
	var entries []slots.Entry
	if entries, shown.Note, err = l.entries(ctx, c, afresh); err != nil {
		return shown, err
	}
	shown.Cut = len(entries) == l.Most
	for _, e := range entries {
		e.First, e.Last = e.First.UTC(), e.Last.UTC()
		shown.Slots = append(shown.Slots, Slot{e, e.First.In(zone).Format(time.RFC3339), e.Last.In(zone).Format(time.RFC3339)})
	}
	return shown, nil
}

// After names those that a connector runs after, at most ten of them.
func After(ids []int32) string {
	said := "after"
	for i, id := range ids {
		if i == 10 {
			return said + fmt.Sprintf(" and %d others", len(ids)-i)
		}
		said += fmt.Sprintf("%s %d", map[bool]string{true: ","}[i > 0], id)
	}
	return said
}

// entries goes through the slots of a connector; note says why none is due.
func (l Look) entries(ctx context.Context, c Connector, afresh bool) (all []slots.Entry, note string, err error) {
	if c, err = byItself(c); err != nil {
		return nil, "", err
	}
	isCron := c.Cron != nil
	if !isCron && (c.RefreshFreqMinutes == nil || *c.RefreshFreqMinutes == 0) {
		if len(c.After) > 0 {
			return nil, "it has no slots: it runs " + After(c.After), nil
		}
		return nil, "", nil
	}
	if c.Calendar != nil {
		if c.Columns.Calendar, err = l.calendar(ctx, *c.Calendar, c.CalendarUse); err != nil {
			return nil, "", err
		}
	}
	windows, err := l.BlackoutsOf(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("read the blackout windows: %w", err)
	}
	who := blackouts.Who{ID: c.ID, Type: c.Type}
	if c.UserID != nil {
		who.UserID = *c.UserID
	}
	c.Blackouts, _ = blackouts.Of(windows, who)
	var b begun
	if !l.Past {
		if b, note = l.begun(c), nothingDue(c); note != "" {
			return nil, note, nil
		}
		if n := len(b.entries); n > 0 && b.entries[0].First.After(l.Until) {
			return nil, fmt.Sprintf("its next sync is due at %s (%s), and no slot before it", b.entries[0].First.UTC().Format(time.RFC3339), b.entries[0].Reason), nil
		}
	}
	if isCron {
		all, err = l.cronEntries(c, b, afresh)
	} else {
		all, err = l.intervalEntries(ctx, c, b, afresh)
	}
	return all, "", err
}

// byItself is where a connector stands by itself while a run with parameters goes on, which answers no slot.
func byItself(c Connector) (Connector, error) {
	if c.KeptPlan == nil {
		return c, nil
	}
	var kept struct {
		Status     string     `json:"status"`
		NextSyncAt *time.Time `json:"next_sync_at"`
		DueReason  *string    `json:"due_reason"`
		SlotAt     *time.Time `json:"slot_at"`
		NeedsPlan  bool       `json:"needs_plan"`
	}
	if err := json.Unmarshal(c.KeptPlan, &kept); err != nil {
		return c, fmt.Errorf("read the plan that is kept during a run with parameters: %w", err)
	}
	c.HasRun, c.Status, c.NextSyncAt, c.DueReason, c.SlotAt, c.NeedsPlan = false, kept.Status, kept.NextSyncAt, kept.DueReason, kept.SlotAt, kept.NeedsPlan
	return c, nil
}

// calendar is the calendar that a schedule names, as it stands.
func (l Look) calendar(ctx context.Context, name, use string) (*slots.Calendar, error) {
	zone, entries, err := l.CalendarOf(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read the calendar: %w", err)
	}
	times, err := calendars.Read(zone, entries)
	if err != nil {
		return nil, calendarError{fmt.Errorf("%s, so that no slot comes: %w", slots.Unreadable(name), err)}
	}
	return &slots.Calendar{Name: name, Use: use, Times: times}, nil
}

// nothingDue says why no slot of a connector is due, whatever its schedule.
func nothingDue(c Connector) string {
	switch {
	case c.Status == "DISABLED":
		return "it is disabled: no slot is due until it is enabled"
	case c.Status == "ERROR" && c.NextSyncAt == nil && !c.NeedsPlan && c.DueReason == nil:
		return "it has failed for good: no slot is due until you change what is wrong, or ask for a sync"
	}
	return ""
}

// begun is the sync that is under way, or that is due for another reason than a slot.
type begun struct {
	isOn          bool
	entries       []slots.Entry // of one that is due
	claimed, over time.Time
	answers       time.Time // the slot it is for, or when it was claimed
	takesOver     bool      // it is wanted: slots before it are answered by then
}

func (l Look) begun(c Connector) (b begun) {
	at, reason := l.From, ""
	switch {
	case c.HasRun:
		b.isOn = true
	case c.DueReason == nil && c.LastSyncAt == nil && (c.Cron == nil || c.RunAtOnce):
		b.isOn, reason = true, "new"
	case c.DueReason != nil && *c.DueReason != "schedule" && c.NextSyncAt != nil:
		b.isOn, reason = true, *c.DueReason
		at = later(at, *c.NextSyncAt)
	default:
		return b
	}
	b.takesOver = reason == "manual" || reason == "changed"
	said := reason
	for range blackouts.Most {
		h, is := slots.Hold(c.Blackouts, c.ID, at, time.Time{})
		if c.HasRun || !is || at.After(l.Until) {
			break
		}
		at, said = h.Until, reason+", behind "+h.Says()
	}
	b.claimed, b.answers, b.over = at, at, at.Add(l.Takes)
	if c.ClaimedAt != nil && c.OverAt == nil { // its tries go on
		b.claimed = *c.ClaimedAt
		if c.ClaimedFor != nil && !b.takesOver {
			b.answers = *c.ClaimedFor
		}
	}
	if reason != "" {
		b.entries = []slots.Entry{{Verdict: slots.Runs, Reason: said, First: at, Last: at, Count: 1}}
	}
	return b
}

func (l Look) cronEntries(c Connector, b begun, afresh bool) ([]slots.Entry, error) {
	s, err := c.Schedule()
	if err != nil {
		return nil, err
	}
	if l.Past {
		return s.Preview(slots.State{Through: l.From}, l.From, l.Until, l.Takes, l.Most), nil
	}
	state := c.State()
	if afresh || state.Through.IsZero() {
		state.Through = l.From
	}
	if !b.isOn {
		from := l.From
		if !afresh && c.NextSyncAt != nil && c.SlotAt != nil && c.SlotAt.Before(*c.NextSyncAt) { // put off
			if c.NextSyncAt.After(l.Until) {
				all := s.PutOff(state, from, l.Until)
				return all[:min(len(all), l.Most)], nil
			}
			from = later(from, *c.NextSyncAt)
		}
		return s.Preview(state, from, l.Until, l.Takes, l.Most), nil
	}
	var all []slots.Entry
	if at := b.over.Add(-l.Takes); b.takesOver && c.ClaimedAt != nil {
		before := state
		if before.OverAt.IsZero() {
			before.OverAt = at
		}
		plan := s.Plan(before, at)
		for _, a := range plan.Passed {
			all = append(all, slots.Entry(a))
		}
		state.Through = plan.Through
	}
	state.ClaimedAt, state.OverAt = b.claimed, b.over
	state.Completed = []time.Time{b.answers}
	if c.SyncedFor != nil && c.SyncedFor.After(b.answers) {
		state.Completed = []time.Time{*c.SyncedFor, b.answers}
	}
	all = append(all, b.entries...)
	return append(all, s.Preview(state, b.over, l.Until, l.Takes, l.Most-len(all))...), nil
}

func (l Look) intervalEntries(
	ctx context.Context, c Connector, b begun, afresh bool,
) (all []slots.Entry, err error) {
	after := func(base time.Time) (time.Time, error) { return l.IntervalSlot(ctx, c, base) }
	from := l.From
	var slot time.Time
	switch {
	case b.isOn:
		all, from = b.entries, b.over
		slot, err = after(b.over)
	case l.Past, c.LastSyncAt == nil:
		slot, err = after(from)
	case !afresh && c.NextSyncAt != nil && c.SlotAt != nil:
		slot, from = *c.SlotAt, later(from, *c.NextSyncAt)
	default:
		slot, err = after(*c.LastSyncAt)
	}
	if err != nil {
		return nil, err
	}
	entries, err := slots.PreviewInterval(c.Columns, slots.Every{Minutes: *c.RefreshFreqMinutes, Spread: c.SpreadPercent}, slot, from, l.Until, l.Takes, l.Most-len(all), after)
	return append(all, entries...), err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
