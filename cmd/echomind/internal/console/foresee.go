package console

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/slots"
)

// entries goes through the slots of a connector; note says why none is due.
func (p *slotPreview) entries(ctx context.Context, c dbgen.Connector, afresh bool) (all []slots.Entry, note string, err error) {
	if c, err = byItself(c); err != nil {
		return nil, "", err
	}
	columns := slots.Columns{
		ID: c.ID, Cron: c.ScheduleCron, Zone: c.TimeZone, DSTGap: c.DstGap, DSTOverlap: c.DstOverlap, Deadline: c.DeadlineMinutes,
		Overlap: c.Overlap, OncePer: c.OncePer, CatchUp: c.CatchUp, Most: c.CatchUpMost, Window: c.CatchUpMinutes,
		Through: c.PlannedThrough, ClaimedAt: c.ClaimedAt, OverAt: c.OverAt, ClaimedFor: c.ClaimedFor, SyncedFor: c.SyncedFor,
	}
	isCron := c.ScheduleCron != nil
	if !isCron && (c.RefreshFreqMinutes == nil || *c.RefreshFreqMinutes == 0) {
		return nil, "", nil
	}
	if c.Calendar != nil {
		if columns.Calendar, err = p.calendar(ctx, *c.Calendar, c.CalendarUse); err != nil {
			return nil, "", err
		}
	}
	var b begun
	if !p.past {
		if b, note = p.begun(c), nothingDue(c); note != "" {
			return nil, note, nil
		}
		if n := len(b.entries); n > 0 && b.entries[0].First.After(p.until) {
			return nil, fmt.Sprintf("its next sync is due at %s (%s), and no slot before it", b.entries[0].First.UTC().Format(time.RFC3339), b.entries[0].Reason), nil
		}
	}
	if isCron {
		all, err = p.cronEntries(c, b, columns, afresh)
	} else {
		all, err = p.intervalEntries(ctx, c, b, columns, afresh)
	}
	return all, "", err
}

// byItself is where a connector stands by itself while a run with parameters goes on, which answers no slot.
func byItself(c dbgen.Connector) (dbgen.Connector, error) {
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
	c.RunID, c.Status, c.NextSyncAt, c.DueReason, c.SlotAt, c.NeedsPlan = nil, kept.Status, kept.NextSyncAt, kept.DueReason, kept.SlotAt, kept.NeedsPlan
	return c, nil
}

// calendar is the calendar that a schedule names, as it stands.
func (p *slotPreview) calendar(ctx context.Context, name, use string) (*slots.Calendar, error) {
	found, err := calendarNamed(ctx, p.pool, name)
	if err != nil {
		return nil, err
	}
	times, err := calendars.Read(found.TimeZone, found.Entries)
	if err != nil {
		return nil, fmt.Errorf("%s, so that no slot comes: %w", slots.Unreadable(name), err)
	}
	return &slots.Calendar{Name: name, Use: use, Times: times}, nil
}

// nothingDue says why no slot of a connector is due, whatever its schedule.
func nothingDue(c dbgen.Connector) string {
	switch {
	case c.Status == "DISABLED":
		return "it is disabled: no slot is due until it is enabled"
	case c.Status == "ERROR" && c.NextSyncAt == nil && !c.NeedsPlan:
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

func (p *slotPreview) begun(c dbgen.Connector) (b begun) {
	at, reason := p.from, ""
	switch {
	case c.RunID != nil:
		b.isOn = true
	case c.DueReason == nil && c.LastSyncAt == nil:
		b.isOn, reason = true, "new"
	case c.DueReason != nil && *c.DueReason != "schedule" && c.NextSyncAt != nil:
		b.isOn, reason = true, *c.DueReason
		at = later(at, *c.NextSyncAt)
	default:
		return b
	}
	b.takesOver = reason == "manual" || reason == "changed"
	b.claimed, b.answers, b.over = at, at, at.Add(p.takes)
	if c.ClaimedAt != nil && c.OverAt == nil { // its tries go on
		b.claimed = *c.ClaimedAt
		if c.ClaimedFor != nil && !b.takesOver {
			b.answers = *c.ClaimedFor
		}
	}
	if reason != "" {
		b.entries = []slots.Entry{{Verdict: slots.Runs, Reason: reason, First: at, Last: at, Count: 1}}
	}
	return b
}

func (p *slotPreview) cronEntries(c dbgen.Connector, b begun, columns slots.Columns, afresh bool) ([]slots.Entry, error) {
	s, err := columns.Schedule()
	if err != nil {
		return nil, err
	}
	if p.past {
		return s.Preview(slots.State{Through: p.from}, p.from, p.until, p.takes, mostEntries), nil
	}
	state := columns.State()
	if afresh || state.Through.IsZero() {
		state.Through = p.from
	}
	if !b.isOn {
		from := p.from
		if !afresh && c.NextSyncAt != nil && c.SlotAt != nil && c.SlotAt.Before(*c.NextSyncAt) { // put off
			from = later(from, *c.NextSyncAt)
		}
		return s.Preview(state, from, p.until, p.takes, mostEntries), nil
	}
	var all []slots.Entry
	if at := b.over.Add(-p.takes); b.takesOver && c.ClaimedAt != nil {
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
	return append(all, s.Preview(state, b.over, p.until, p.takes, mostEntries-len(all))...), nil
}

func (p *slotPreview) intervalEntries(
	ctx context.Context, c dbgen.Connector, b begun, columns slots.Columns, afresh bool,
) (all []slots.Entry, err error) {
	after := func(base time.Time) (time.Time, error) {
		return ask(ctx, p.pool, "slot", func(ctx context.Context, q *dbgen.Queries) (time.Time, error) {
			return q.IntervalSlot(ctx, dbgen.IntervalSlotParams{ID: c.ID, Base: base, Minutes: *c.RefreshFreqMinutes, Spread: c.SpreadPercent})
		})
	}
	from := p.from
	var slot time.Time
	switch {
	case b.isOn:
		all, from = b.entries, b.over
		slot, err = after(b.over)
	case p.past, c.LastSyncAt == nil:
		slot, err = after(from)
	case !afresh && c.NextSyncAt != nil && c.SlotAt != nil:
		slot, from = *c.SlotAt, later(from, *c.NextSyncAt)
	default:
		slot, err = after(*c.LastSyncAt)
	}
	if err != nil {
		return nil, err
	}
	entries, err := slots.PreviewInterval(columns, slots.Every{Minutes: *c.RefreshFreqMinutes, Spread: c.SpreadPercent}, slot, from, p.until, p.takes, mostEntries-len(all), after)
	return append(all, entries...), err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
