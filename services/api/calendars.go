package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// shownTimes is how many times to come are shown of a calendar.
	shownTimes = 20
	// mostCalendars is of how many bytes of entries a page of calendars is made: each is read.
	mostCalendars = 1 << 20
)

func (a *API) calendarRoutes() {
	register(a, identity.ListCalendars, http.MethodGet, "/calendars", "List the calendars that schedules may name", http.StatusOK, a.listCalendars)
	register(a, identity.GetCalendar, http.MethodGet, "/calendars/{name}", "Show a calendar, and the next of its times", http.StatusOK, a.getCalendar, mayBeMissing)
	register(a, identity.PutCalendar, http.MethodPut, "/calendars/{name}", "Add a calendar, or replace what one has", http.StatusOK, a.putCalendar)
	a.mayBeNew("/calendars/{name}")
	register(a, identity.ReadCalendar, http.MethodPost, "/icalendar", "Read an iCalendar file as what a calendar may have; nothing is written", http.StatusOK, a.readCalendar, readsText)
	register(a, identity.DeleteCalendar, http.MethodDelete, "/calendars/{name}", "Delete a calendar that nobody uses", http.StatusNoContent, a.deleteCalendar, mayBeMissing)
}

// Calendar is a list of times on which schedules do not run, or run alone.
type Calendar struct {
	Name       string    `json:"name"`
	Version    string    `json:"version" doc:"Another after each change; a number that JavaScript would round."`
	TimeZone   string    `json:"time_zone"`
	Entries    int32     `json:"entries" doc:"How many: days, spans and rules."`
	Connectors *int64    `json:"connectors" doc:"How many name it, up to 10,000; null for who is no superadmin."`
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  *string   `json:"created_by" doc:"For admins."`
	UpdatedAt  time.Time `json:"updated_at"`
	UpdatedBy  *string   `json:"updated_by" doc:"For admins."`
	Problem    *string   `json:"problem" doc:"Why it cannot be read: schedules that name it wait until it can."`
}

// calendar is what is shown of one without what is in it, and its times, where they can be read.
func calendar(of dbgen.ApiCalendar) (Calendar, *calendars.Calendar) {
	v := Calendar{Name: of.Name, Version: strconv.FormatInt(of.Version, 10), TimeZone: of.TimeZone, Connectors: of.Connectors,
		CreatedAt: of.CreatedAt.UTC(), CreatedBy: of.CreatedBy, UpdatedAt: of.UpdatedAt.UTC(), UpdatedBy: of.UpdatedBy}
	var all []json.RawMessage
	if json.Unmarshal(of.Entries, &all) == nil {
		v.Entries = int32(len(all))
	}
	times, err := calendars.Read(of.TimeZone, of.Entries)
	if err != nil {
		v.Problem = new(err.Error())
	}
	return v, times
}

// CalendarPage is one page of calendars.
type CalendarPage struct {
	Body struct {
		Calendars     []Calendar `json:"calendars"`
		NextPageToken *string    `json:"next_page_token" doc:"Null where there are no more. A page may have fewer calendars than asked for, and a next one."`
	}
}

func (a *API) listCalendars(ctx context.Context, in *Paging) (*CalendarPage, error) {
	at, out := "", &CalendarPage{}
	next, err := a.place(ctx, in.PageToken, "calendars", &at)
	if err != nil {
		return nil, err
	}
	var found []dbgen.ApiCalendar
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		var more bool
		found, more, err = filled(in.most(), mostCalendars, func(c dbgen.ApiCalendar) int { return len(c.Entries) }, func(rows int32, behind *dbgen.ApiCalendar) ([]dbgen.ApiCalendar, error) {
			if behind != nil {
				at = behind.Name
			}
			return q.ListCalendars(ctx, dbgen.ListCalendarsParams{After: at, Page: rows})
		})
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].Name)
		}
		return err
	})
	out.Body.Calendars = make([]Calendar, len(found))
	for i, c := range found { // outside the transaction: rules may be many
		out.Body.Calendars[i], _ = calendar(c)
	}
	return out, err
}

// CalendarEntry is a day, a span, or a rule.
type CalendarEntry calendars.Entry

// CalendarTime is a time that a calendar has.
type CalendarTime calendars.Span

// OneCalendar is one with what is in it.
type OneCalendar struct {
	Status int
	ETag   string `header:"ETag" doc:"Its version: If-Match of a change."`
	Body   struct {
		Calendar
		All    []CalendarEntry `json:"all" doc:"Its entries."`
		Coming []CalendarTime  `json:"coming" doc:"The next 20 of its times, within the next twelve years; to is null where one goes on for longer."`
	}
}

func (a *API) getCalendar(ctx context.Context, in *Named) (*OneCalendar, error) {
	var found dbgen.ApiCalendar
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		found, err = q.GetCalendar(ctx, in.Name)
		if errors.Is(err, pgx.ErrNoRows) {
			return problem.NotFound(fmt.Sprintf("calendar %q", in.Name))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return viewCalendar(ctx, found)
}

func viewCalendar(ctx context.Context, found dbgen.ApiCalendar) (*OneCalendar, error) {
	out := &OneCalendar{Status: http.StatusOK, ETag: version(found.Version)}
	out.Body.All, out.Body.Coming = []CalendarEntry{}, []CalendarTime{}
	var times *calendars.Calendar
	if out.Body.Calendar, times = calendar(found); out.Body.Problem != nil { // outside the transaction: its rules may be many
		if json.Unmarshal(found.Entries, &out.Body.All) != nil {
			out.Body.All = []CalendarEntry{}
		}
		return out, nil
	}
	coming, err := times.Coming(ctx, time.Now(), shownTimes)
	if err != nil {
		return nil, err
	}
	for _, t := range coming {
		out.Body.Coming = append(out.Body.Coming, CalendarTime(t))
	}
	return out, json.Unmarshal(found.Entries, &out.Body.All)
}
