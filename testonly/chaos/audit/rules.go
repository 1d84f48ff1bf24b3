package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/cron"
	rules "github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/sdk/lifecycle"
)

const (
	conditionPrefix = "condition `"
	// oldCalendar is for how long after a change a claim may still go by the calendar of before.
	oldCalendar = time.Minute
)

// calendarVersion is a calendar from an event on.
type calendarVersion struct {
	seq   int64
	at    time.Time
	times *calendars.Calendar // nil where it cannot be read
}

// matterEvent is how a matter stands from an event on.
type matterEvent struct {
	seq    int64
	at     time.Time
	stands string
}

func (h *history) loadRules(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `SELECT seq, at, name, stands FROM chaos.matter_events ORDER BY seq`)
	if err != nil {
		return err
	}
	var e matterEvent
	var name, zone, entries string
	if _, err := pgx.ForEachRow(rows, []any{&e.seq, &e.at, &name, &e.stands}, func() error {
		h.matters[name] = append(h.matters[name], e)
		return nil
	}); err != nil {
		return err
	}
	if rows, err = pool.Query(ctx, `SELECT seq, at, name, time_zone, entries FROM chaos.calendar_events ORDER BY seq`); err != nil {
		return err
	}
	var v calendarVersion
	_, err = pgx.ForEachRow(rows, []any{&v.seq, &v.at, &name, &zone, &entries}, func() error {
		v.times, _ = calendars.Read(zone, []byte(entries))
		h.calendars[name] = append(h.calendars[name], v)
		return nil
	})
	return err
}

// stood says whether a matter has stood in one of some ways before an event.
func (h *history) stood(matter string, before int64, how ...string) bool {
	for _, e := range h.matters[matter] {
		if e.seq < before && slices.Contains(how, e.stands) {
			return true
		}
	}
	return false
}

// passedOver looks at the reasons of slots that no run answers.
func (h *history) passedOver(opts Options) Finding {
	f := Finding{
		Promise: 4, Name: "slots are passed over for what was so",
		How: "a line of slots that no run answers names a calendar that closed each of them, a blackout that stood, a period in which a sync had completed, or a condition that was not met; a condition fails for its own matter",
	}
	for _, r := range h.ordered {
		if !r.noRun() || r.verdict == "" {
			continue
		}
		f.Checked++
		c, _ := h.configOf(r)
		switch {
		case strings.HasPrefix(r.reason, conditionPrefix):
			if !h.stood(c.matter, r.endedAt, "not met") {
				f.violated("%s says %q, and matter %q never stood so", r, r.reason, c.matter)
			}
		case r.reason == string(lifecycle.ConditionFailed):
			if ways := failsBy(r.said); ways != nil && !h.stood(c.matter, r.endedAt, ways...) {
				f.violated("%s failed: %s; matter %q never stood so", r, r.said, c.matter)
			}
		case strings.HasPrefix(r.reason, rules.OnCalendar):
			if !h.closedBy(r) {
				f.violated("%s passes over slots from %s to %s: %s; no version of it closed them so", r, r.slot, r.last, r.reason)
			}
		case strings.HasPrefix(r.reason, rules.InBlackout):
			if !h.skippedBy(r) {
				f.violated("%s skips slots from %s to %s: %s; no version of it had them so", r, r.slot, r.last, r.reason)
			}
		case strings.HasPrefix(r.reason, rules.AlreadyCompleted):
			if !h.completedFor(r, strings.TrimPrefix(r.reason, rules.AlreadyCompleted)) {
				f.violated("%s says %q, and no sync of it had completed", r, r.reason)
			}
		case r.reason == rules.TooLate || r.reason == rules.NotCaughtUp:
			// The shortest deadline and the shortest window are a minute.
			if opts.ClockStepped == 0 && r.at.Sub(r.through()) < time.Minute {
				f.violated("%s says %q of slot %s", r, r.reason, r.through())
			}
		}
	}
	return f
}

// failsBy are the failures that a condition's message can mean; nil where it may be the machine's.
func failsBy(said string) []string {
	switch {
	case strings.Contains(said, "took longer"), strings.Contains(said, "did not end"):
		return nil
	case strings.Contains(said, "division by zero"):
		return []string{"raises"}
	case strings.Contains(said, "failed:"):
		return []string{"no way that the harness knows"}
	}
	return []string{"null"}
}

// closedBy says whether one version of the calendar that a line names closes each of its slots.
func (h *history) closedBy(r *run) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.reason, rules.OnCalendar), "`")
	var all []time.Time
	for _, e := range h.byLife[r.life] {
		if e.Cron == nil || e.Calendar == nil || e.Seq > r.endedAt {
			continue
		}
		if s, err := cron.Parse(cron.Columns(*e.Cron, e.TimeZone, e.Connector, e.DSTGap, e.DSTOverlap)); err == nil && !r.slot.Equal(*r.last) {
			for at := *r.slot; !at.IsZero() && !at.After(*r.last); at = s.Next(at) {
				all = append(all, at)
			}
			break
		}
	}
	if all == nil {
		all = []time.Time{*r.slot, *r.last}
	}
	for _, v := range h.calendars[name] {
		for _, use := range []string{rules.Exclude, rules.Only} {
			if v.times == nil || v.seq > r.endedAt {
				continue
			}
			c := &rules.Calendar{Name: name, Use: use, Times: v.times}
			if !slices.ContainsFunc(all, func(at time.Time) bool { why, _ := c.Closed(at); return why != r.reason }) {
				return true
			}
		}
	}
	return false
}

// period is a day, week or month of a zone, as reasons name it.
func period(per string, at time.Time, zone string) string {
	in, err := time.LoadLocation(zone)
	if err != nil {
		return ""
	}
	switch local := at.In(in); per {
	case string(rules.Week):
		year, week := local.ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	case string(rules.Month):
		return local.Format("2006-01")
	default:
		return local.Format(time.DateOnly)
	}
}

// completedFor says whether a sync for a period had completed before a line was written.
func (h *history) completedFor(line *run, of string) bool {
	for _, e := range h.byLife[line.life] {
		r := h.runOf(e.Run)
		if !e.claimed() || e.Asked || e.ClaimedFor == nil || r == nil || !r.synced() || r.endedAt > line.endedAt {
			continue
		}
		for _, per := range []rules.Period{rules.Day, rules.Week, rules.Month} {
			for _, zone := range h.zonesOf(line.life) {
				if period(string(per), *e.ClaimedFor, zone) == of {
					return true
				}
			}
		}
	}
	return false
}

func (h *history) zonesOf(l life) (zones []string) {
	for _, e := range h.byLife[l] {
		if e.TimeZone != "" && !slices.Contains(zones, e.TimeZone) {
			zones = append(zones, e.TimeZone)
		}
	}
	return zones
}

// rulesKept looks at what was claimed although a rule of its schedule keeps it from running.
func (h *history) rulesKept(opts Options) Finding {
	f := Finding{
		Promise: 4, Name: "no run against a rule",
		How: "a job is claimed once its condition was met, a slot on no time that its calendar closes, and for no period in which a sync had completed",
	}
	for _, events := range h.byLife {
		var done []*event // claims of syncs that were completed or skipped, whose runs end in the order of their claims
		for _, e := range events {
			r := h.runOf(e.Run)
			if !e.claimed() || e.Asked || r == nil {
				continue
			}
			if e.From != "SYNCING" {
				h.condition(&f, e, r)
				if r.slot != nil {
					h.calendar(&f, e, r, opts)
					oncePer(&f, e, r, done)
				}
			}
			if r.synced() && e.ClaimedFor != nil {
				done = append(done, e)
			}
		}
	}
	return f
}

func (h *history) condition(f *Finding, e *event, r *run) {
	if e.Condition == nil || e.Triggered || !slices.Contains([]string{"new", "schedule", "changed"}, r.trigger) {
		return
	}
	f.Checked++
	c, _ := h.configOf(r)
	switch {
	case !e.Met:
		f.violated("%s was claimed, and condition %s was not asked", e, *e.Condition)
	case !h.stood(c.matter, e.Seq, "met"):
		f.violated("%s was claimed, and condition %s was never met: matter %q", e, *e.Condition, c.matter)
	}
}

func (h *history) calendar(f *Finding, e *event, r *run, opts Options) {
	if e.Calendar == nil {
		return
	}
	f.Checked++
	versions := h.calendars[*e.Calendar]
	for i, v := range versions {
		if v.seq > e.Seq || i+1 < len(versions) && versions[i+1].at.Before(e.At.Add(-oldCalendar-opts.ClockStepped)) {
			continue
		}
		if v.times == nil {
			return
		}
		c := &rules.Calendar{Name: *e.Calendar, Use: *e.CalendarUse, Times: v.times}
		if why, _ := c.Closed(*r.slot); why == "" {
			return
		}
	}
	f.violated("%s answers slot %s, which calendar %s closes (%s)", r, r.slot, *e.Calendar, *e.CalendarUse)
}

func oncePer(f *Finding, e *event, r *run, done []*event) {
	if e.OncePer == nil || e.Cron == nil {
		return
	}
	f.Checked++
	now := period(*e.OncePer, *r.slot, e.TimeZone)
	for _, d := range done {
		if period(*e.OncePer, *d.ClaimedFor, e.TimeZone) == now {
			f.violated("%s answers slot %s once per %s, and the sync for %s had completed", r, r.slot, *e.OncePer, d.ClaimedFor)
			return
		}
	}
}
