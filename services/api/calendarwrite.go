package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// shownUsers is how many of those who use a calendar are named.
const shownUsers = 10

// PutCalendar is what a calendar is to have.
type PutCalendar struct {
	PutNamed
	Body struct {
		TimeZone string          `json:"time_zone" minLength:"1" maxLength:"64" doc:"An IANA name such as Europe/Berlin: the zone of its days and times."`
		Entries  []CalendarEntry `json:"entries" nullable:"false" maxItems:"1000" doc:"All that it has: days, spans and rules."`
	}
}

// entries are what is given, as the table has it.
func (in *PutCalendar) entries() ([]byte, error) {
	all := make([]calendars.Entry, len(in.Body.Entries))
	for i, e := range in.Body.Entries {
		if all[i] = calendars.Entry(e); strings.ContainsRune(e.Name+e.Rule, 0) {
			return nil, problem.Invalid(fmt.Sprintf("body.entries[%d]", i), "has a NUL character; write it without one")
		}
	}
	if _, err := calendars.Of(in.Body.TimeZone, nil); err != nil {
		return nil, refusedCalendar("body.time_zone", err)
	}
	if _, err := calendars.Of(in.Body.TimeZone, all); err != nil {
		return nil, refusedCalendar("body.entries", err)
	}
	return json.Marshal(all)
}

func refusedCalendar(field string, err error) error {
	return problem.Invalid(field, strings.TrimPrefix(err.Error(), calendars.ErrCalendar.Error()+": "))
}

func (a *API) putCalendar(ctx context.Context, in *PutCalendar) (*OneCalendar, error) {
	entries, err := in.entries()
	if err != nil {
		return nil, err
	}
	var isNew bool
	var written dbgen.ApiCalendar
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := optional(q.LockCalendar(ctx, in.Name))
		if err != nil {
			return err
		}
		if err := in.check(stands); err != nil {
			return err
		}
		if isNew = stands == nil; isNew {
			n, err := q.AddCalendar(ctx, dbgen.AddCalendarParams{Name: in.Name, TimeZone: in.Body.TimeZone, Entries: entries})
			if err == nil && n == 0 {
				err = in.meanwhile()
			}
			if err != nil {
				return err
			}
		} else if _, err := q.ChangeCalendar(ctx, dbgen.ChangeCalendarParams{Name: in.Name, TimeZone: in.Body.TimeZone, Entries: entries}); err != nil {
			return err
		}
		written, err = q.GetCalendar(ctx, in.Name)
		return err
	})
	if err != nil {
		return nil, err
	}
	out, err := viewCalendar(ctx, written)
	if err == nil {
		out.Status = putStatus(isNew)
	}
	return out, err
}

// optional is what a query finds; nil where there is none.
func optional[T any](found T, err error) (*T, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &found, err
}

func (a *API) deleteCalendar(ctx context.Context, in *NamedVersion) (*Nothing, error) {
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := q.LockCalendar(ctx, in.Name)
		if errors.Is(err, pgx.ErrNoRows) {
			return problem.NotFound(fmt.Sprintf("calendar %q", in.Name))
		}
		if err != nil {
			return err
		}
		if err := in.check(stands); err != nil {
			return err
		}
		if err := unused(ctx, q, in.Name); err != nil {
			return err
		}
		_, err = q.DeleteCalendar(ctx, in.Name)
		return err
	})
	switch postgres.Constraint(err) {
	case "connectors_calendar_known", "blackouts_calendar_known": // of somebody who has named it since it was looked at
		err = problem.Conflict(fmt.Sprintf("Calendar %q is in use.", in.Name), "Try again: the answer names who uses it.")
	}
	return &Nothing{}, err
}

// unused refuses a calendar that is in use, and names who uses it.
func unused(ctx context.Context, q *dbgen.Queries, name string) error {
	connectors, err := q.CalendarConnectors(ctx, dbgen.CalendarConnectorsParams{Name: name, Most: shownUsers + 1})
	if err != nil {
		return err
	}
	windows, err := q.CalendarBlackouts(ctx, dbgen.CalendarBlackoutsParams{Name: name, Most: shownUsers + 1})
	if err != nil || len(connectors)+len(windows) == 0 {
		return err
	}
	var users, fixes []string
	if len(connectors) > 0 {
		users = append(users, "connectors "+some(connectors))
		fixes = append(fixes, "PATCH these connectors with calendar null")
	}
	if len(windows) > 0 {
		users = append(users, "blackout windows "+some(windows))
		fixes = append(fixes, "give these windows another calendar, or delete them")
	}
	return problem.Conflict(fmt.Sprintf("Calendar %q is in use by %s.", name, strings.Join(users, " and ")), "First "+strings.Join(fixes, ", and ")+".")
}

// some names the first of several.
func some[T any](all []T) string {
	shown, more := cut(all, shownUsers)
	text := strings.ReplaceAll(strings.Trim(fmt.Sprint(shown), "[]"), " ", ", ")
	if more {
		text += " and others"
	}
	return text
}
