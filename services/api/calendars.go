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

// shownTimes is how many times to come are shown of a calendar.
const shownTimes = 20

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
	Name      string    `json:"name"`
	Version   string    `json:"version" doc:"Another after each change; a number that JavaScript would round."`
	TimeZone  string    `json:"time_zone"`
	Entries   int32     `json:"entries" doc:"How many: days, spans and rules."`
	UpdatedAt time.Time `json:"updated_at"`
}

// CalendarPage is one page of calendars.
type CalendarPage struct {
	Body struct {
		Calendars     []Calendar `json:"calendars"`
		NextPageToken *string    `json:"next_page_token"`
	}
}

func (a *API) listCalendars(ctx context.Context, in *Paging) (*CalendarPage, error) {
	p, out := dbgen.ListCalendarsParams{Page: in.most() + 1}, &CalendarPage{}
	next, err := a.place(ctx, in.PageToken, "calendars", &p.After)
	if err != nil {
		return nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.ListCalendars(ctx, p)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Calendars = make([]Calendar, len(found))
		for i, c := range found {
			out.Body.Calendars[i] = Calendar{c.Name, strconv.FormatInt(c.Version, 10), c.TimeZone, c.Entries, c.UpdatedAt.UTC()}
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].Name)
		}
		return nil
	})
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
		All     []CalendarEntry `json:"all" doc:"Its entries."`
		Coming  []CalendarTime  `json:"coming" doc:"The next 20 of its times, within the next twelve years; to is null where one goes on for longer."`
		Problem *string         `json:"problem" doc:"Why it cannot be read: schedules that name it wait until it can."`
	}
}

func (a *API) getCalendar(ctx context.Context, in *Named) (*OneCalendar, error) {
	var found dbgen.GetCalendarRow
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

func viewCalendar(ctx context.Context, found dbgen.GetCalendarRow) (*OneCalendar, error) {
	out := &OneCalendar{Status: http.StatusOK, ETag: version(found.Version)}
	out.Body.All, out.Body.Coming = []CalendarEntry{}, []CalendarTime{}
	out.Body.Calendar = Calendar{found.Name, strconv.FormatInt(found.Version, 10), found.TimeZone, found.Count, found.UpdatedAt.UTC()}
	times, err := calendars.Read(found.TimeZone, found.Entries) // outside the transaction: its rules may be many
	if err != nil {
		out.Body.Problem = new(err.Error())
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
