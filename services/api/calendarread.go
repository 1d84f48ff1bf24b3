package api

import (
	"bytes"
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/echomind/sync/internal/calendars"
	"github.com/echomind/sync/internal/calendars/icalendar"
	"github.com/echomind/sync/services/api/internal/problem"
)

// readsText says that an operation takes an iCalendar file (RFC 5545) and no JSON.
func readsText(o *huma.Operation) {
	o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"text/calendar": {Schema: &huma.Schema{Type: huma.TypeString}}}}
}

// ICalendarFile is an iCalendar file.
type ICalendarFile struct {
	TimeZone string `query:"time_zone" maxLength:"64" doc:"The zone of its whole days, an IANA name; else the one that the file names (X-WR-TIMEZONE)."`
	RawBody  []byte
}

// ReadCalendar is what a PUT of a calendar takes, and what was left out of it.
type ReadCalendar struct {
	Body struct {
		TimeZone string          `json:"time_zone"`
		Entries  []CalendarEntry `json:"entries" doc:"Days, spans and rules."`
		LeftOut  []string        `json:"left_out" doc:"Events that are none of them, and why."`
	}
}

func (a *API) readCalendar(_ context.Context, in *ICalendarFile) (*ReadCalendar, error) {
	file, err := icalendar.Read(bytes.NewReader(in.RawBody))
	if err != nil {
		return nil, problem.Invalid("body", err.Error())
	}
	if len(file.Entries) == 0 {
		return nil, problem.Invalid("body", "has no event that a calendar could have")
	}
	out := &ReadCalendar{}
	if out.Body.TimeZone = in.TimeZone; in.TimeZone == "" {
		out.Body.TimeZone = file.TimeZone
	}
	if out.Body.TimeZone == "" {
		return nil, problem.Invalid("query.time_zone", "is not there, and the file names none; give one such as Europe/Berlin")
	}
	if _, err := calendars.Of(out.Body.TimeZone, nil); err != nil {
		return nil, refusedCalendar("query.time_zone", err)
	}
	if _, err := calendars.Of(out.Body.TimeZone, file.Entries); err != nil {
		return nil, refusedCalendar("body", err)
	}
	out.Body.Entries, out.Body.LeftOut = make([]CalendarEntry, len(file.Entries)), append([]string{}, file.Left...)
	for i, e := range file.Entries {
		out.Body.Entries[i] = CalendarEntry(e)
	}
	return out, nil
}
