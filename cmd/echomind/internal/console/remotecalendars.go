package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/sdk/client"
)

// nameForm is that of calendars and blackout windows, which the table checks where there is no server.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// put writes something with a name whatever of it is there. A server is told which of the two it is: a version, or nothing.
func put[T any](ask func(match *string) (T, error)) (T, error) {
	answer, err := ask(new("*"))
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed { // there is none
		return ask(nil)
	}
	return answer, err
}

// putBlackout adds a blackout window, or replaces what one says.
func (r *remote) putBlackout(ctx context.Context, p dbgen.PutBlackoutParams) (none blackoutView, _ error) {
	if !nameForm.MatchString(p.Name) {
		return none, wrongName(p.Name)
	}
	body, err := json.Marshal(map[string]any{
		"calendar": p.Calendar, "user_id": p.UserID, "type": p.Type, "provider": p.Provider, "mode": p.Mode, "spread_minutes": p.SpreadMinutes,
		"except_connectors": append([]int32{}, p.ExceptConnectors...),
	})
	if err != nil {
		return none, err
	}
	answer, err := put(func(match *string) (*client.BlackoutsPutResponse, error) {
		return r.api.BlackoutsPutWithBodyWithResponse(ctx, p.Name, &client.BlackoutsPutParams{IfMatch: match}, "application/json", bytes.NewReader(body))
	})
	for _, field := range wrongFields(err) {
		constraint := map[string]string{"body.calendar": "blackouts_calendar_known", "body.type": "blackouts_type_known", "body.provider": "blackouts_provider_known"}[field.Field]
		if wrong := wrongOfBlackout(constraint, p); wrong != nil {
			return none, wrong
		}
	}
	if err != nil {
		return none, fmt.Errorf("write the blackout window: %w", err)
	}
	written, err := readAs[blackoutView](answer.Body)
	if err == nil {
		err = r.is(written.Name == p.Name)
	}
	written.Held = nil // as on the database, which does not count them then
	return written.whole(), err
}

// whole is a window whose exceptions are a list, as the database has it.
func (v blackoutView) whole() blackoutView {
	if v.ExceptConnectors == nil {
		v.ExceptConnectors = []int32{}
	}
	return v
}

func (r *remote) blackouts(ctx context.Context) ([]blackoutView, error) {
	p := client.BlackoutsListParams{PageSize: new(int32(shortPage))}
	found, err := readPages(ctx, "blackouts", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.BlackoutsListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, never[blackoutView])
	if err != nil {
		return nil, fmt.Errorf("list the blackout windows: %w", err)
	}
	views := make([]blackoutView, len(found))
	for i, v := range found {
		views[i] = v.whole()
	}
	return views, nil
}

func (r *remote) deleteBlackout(ctx context.Context, name string) error {
	if !nameForm.MatchString(name) {
		return noBlackout(name)
	}
	answer, err := r.api.BlackoutsDeleteWithResponse(ctx, name, &client.BlackoutsDeleteParams{IfMatch: new("*")})
	switch {
	case notFound(err):
		return noBlackout(name)
	case err != nil:
		return fmt.Errorf("delete the blackout window: %w", err)
	}
	return r.is(answer.StatusCode() == http.StatusNoContent)
}

// putCalendar adds a calendar, or replaces what one has.
func (r *remote) putCalendar(ctx context.Context, p dbgen.PutCalendarParams) (v calendarView, _ error) {
	if !nameForm.MatchString(p.Name) {
		return v, wrongName(p.Name)
	}
	body, err := json.Marshal(map[string]any{"time_zone": p.TimeZone, "entries": json.RawMessage(p.Entries)})
	if err != nil {
		return v, err
	}
	answer, err := put(func(match *string) (*client.CalendarsPutResponse, error) {
		return r.api.CalendarsPutWithBodyWithResponse(ctx, p.Name, &client.CalendarsPutParams{IfMatch: match}, "application/json", bytes.NewReader(body))
	})
	if err != nil {
		return v, fmt.Errorf("write the calendar: %w", err)
	}
	written, err := readAs[remoteCalendar](answer.Body)
	if err == nil {
		err = r.is(written.Name == p.Name)
	}
	return written.calendarView, err
}

// remoteCalendar is a calendar as a server shows it: its version is a text there.
type remoteCalendar struct {
	calendarDetails
	Version int64 `json:"version,string"`
}

func (c *remoteCalendar) UnmarshalJSON(text []byte) error {
	type plain remoteCalendar
	if err := json.Unmarshal(text, (*plain)(c)); err != nil {
		return err
	}
	c.calendarDetails.Version = c.Version
	return nil
}

func (r *remote) calendars(ctx context.Context) ([]calendarView, error) {
	p := client.CalendarsListParams{PageSize: new(int32(shortPage))}
	found, err := upToMost[remoteCalendar](ctx, "calendars", maxListedCalendars, func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.CalendarsListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the calendars: %w", err)
	}
	views := make([]calendarView, len(found))
	for i, c := range found {
		views[i] = c.calendarView
	}
	return views, nil
}

func (r *remote) calendar(ctx context.Context, name string) (d calendarDetails, _ error) {
	if !nameForm.MatchString(name) {
		return d, noCalendar(name)
	}
	answer, err := r.api.CalendarsGetWithResponse(ctx, name)
	switch {
	case notFound(err):
		return d, noCalendar(name)
	case err != nil:
		return d, fmt.Errorf("read the calendar: %w", err)
	}
	found, err := readAs[remoteCalendar](answer.Body)
	if err == nil {
		err = r.is(found.Name == name)
	}
	return found.calendarDetails, err
}

// withUsers is a calendar that is not written, with how many connectors name the one of its name.
func (r *remote) withUsers(ctx context.Context, v calendarView) (calendarView, error) {
	answer, err := r.api.CalendarsGetWithResponse(ctx, v.Name)
	switch {
	case notFound(err) || !nameForm.MatchString(v.Name):
		v.Connectors = new(int64(0))
		return v, nil
	case err != nil:
		return v, fmt.Errorf("count who names the calendar: %w", err)
	}
	stands, err := readAs[remoteCalendar](answer.Body)
	v.Connectors = stands.Connectors
	return v, err
}

func (r *remote) deleteCalendar(ctx context.Context, name string) error {
	if !nameForm.MatchString(name) {
		return noCalendar(name)
	}
	answer, err := r.api.CalendarsDeleteWithResponse(ctx, name, &client.CalendarsDeleteParams{IfMatch: new("*")})
	switch {
	case notFound(err):
		return noCalendar(name)
	case err != nil:
		return fmt.Errorf("delete the calendar: %w", err)
	}
	return r.is(answer.StatusCode() == http.StatusNoContent)
}
