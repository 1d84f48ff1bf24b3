package audit

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/blackouts"
	rules "github.com/echomind/sync/internal/slots"
)

// afterWrite is how long a window may take from its row to its commit.
const afterWrite = 2 * time.Second

// blackoutVersion is a window from an event on.
type blackoutVersion struct {
	seq      int64
	at       time.Time
	calendar *string // nil: it is gone
	whom     blackouts.Window
}

func (h *history) loadBlackouts(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `SELECT seq, at, name, calendar, user_id, types, except_connectors FROM chaos.blackout_events ORDER BY seq`)
	if err != nil {
		return err
	}
	h.blackouts = map[string][]blackoutVersion{}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v blackoutVersion, err error) {
		err = row.Scan(&v.seq, &v.at, &v.whom.Name, &v.calendar, &v.whom.UserID, &v.whom.Types, &v.whom.Except)
		return v, err
	})
	for _, v := range all {
		h.blackouts[v.whom.Name] = append(h.blackouts[v.whom.Name], v)
	}
	return err
}

// inBlackout looks at what was claimed while a window stood.
func (h *history) inBlackout(opts Options) Finding {
	f := Finding{
		Promise: 4, Name: "no run is claimed inside a blackout",
		How: "no connector is claimed while a window holds it that stood all the time since before the claim's transaction, and as far around it as Postgres's clock has stepped, with the calendar of then; what goes on after a lost worker is no claim",
	}
	for _, events := range h.byLife {
		for _, e := range events {
			r := h.runOf(e.Run)
			if !e.claimed() || e.From == "SYNCING" || r == nil {
				continue
			}
			from, until := e.Opened.Add(-afterWrite-opts.ClockStepped), e.At.Add(opts.ClockStepped)
			for name, versions := range h.blackouts {
				f.Checked++
				who := blackouts.Who{ID: e.Connector, UserID: e.Owner, Type: e.Type}
				if h.stoodOver(versions, who, from, until) {
					f.violated("%s was claimed as %s, and blackout %s stood", e, r.trigger, name)
				}
			}
		}
	}
	return f
}

// stoodOver says whether a window held a connector at all moments between two.
func (h *history) stoodOver(versions []blackoutVersion, who blackouts.Who, from, until time.Time) bool {
	stood := false
	for i, v := range versions {
		if v.at.After(until) || i+1 < len(versions) && versions[i+1].at.Before(from) {
			continue
		}
		if v.calendar == nil || !v.whom.Holds(who) || i == 0 && v.at.After(from) {
			return false
		}
		calendar := h.calendars[*v.calendar]
		for j, k := range calendar {
			if k.at.After(until) || j+1 < len(calendar) && calendar[j+1].at.Before(from) {
				continue
			}
			if k.times == nil || j == 0 && k.at.After(from) {
				return false
			}
			if begun, _, end := k.times.At(from); !begun || !end.After(until) {
				return false
			}
			stood = true
		}
	}
	return stood
}

// windowHad says whether a moment lay in any window, whenever it stood.
func (h *history) windowHad(at time.Time) bool {
	for _, versions := range h.blackouts {
		for _, v := range versions {
			if v.calendar == nil {
				continue
			}
			for _, k := range h.calendars[*v.calendar] {
				if k.times == nil {
					continue
				}
				if on, _, _ := k.times.At(at); on {
					return true
				}
			}
		}
	}
	return false
}

// skippedBy says whether one version of the calendar of the window that a line names has each of the line's slots.
func (h *history) skippedBy(r *run) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.reason, rules.InBlackout), "`")
	for _, v := range h.blackouts[name] {
		if v.calendar == nil || v.seq > r.endedAt {
			continue
		}
		for _, k := range h.calendars[*v.calendar] {
			if k.times == nil || k.seq > r.endedAt {
				continue
			}
			if !slices.ContainsFunc([]time.Time{*r.slot, *r.last}, func(at time.Time) bool { on, _, _ := k.times.At(at); return !on }) {
				return true
			}
		}
	}
	return false
}
