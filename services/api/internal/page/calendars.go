package page

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/services/api/internal/problem"
)

// maxCalendarForm is the longest form with an iCalendar file, in bytes: the file has at most 512 KiB.
const maxCalendarForm = 520 << 10

// calendar is a list of times on which schedules do not run, or run alone.
type calendar struct {
	Name       string          `json:"name"`
	TimeZone   string          `json:"time_zone"`
	Entries    int32           `json:"entries"`
	Connectors *int64          `json:"connectors"`
	UpdatedAt  time.Time       `json:"updated_at"`
	UpdatedBy  *string         `json:"updated_by"`
	Problem    *string         `json:"problem"`
	All        []calendarEntry `json:"all"`
	Coming     []struct {
		From time.Time  `json:"from"`
		To   *time.Time `json:"to"`
		Name string     `json:"name"`
	} `json:"coming"`

	Changed *moment `json:"-"`
}

// State says whether it can be read.
func (c calendar) State() state {
	if c.Problem != nil {
		return state{"error", "Cannot be read"}
	}
	return state{"active", "Can be read"}
}

// calendarEntry is a day, a span, or a rule.
type calendarEntry struct {
	Name     string   `json:"name"`
	Start    string   `json:"start"`
	End      string   `json:"end,omitempty"`
	TimeZone string   `json:"time_zone,omitempty"`
	Rule     string   `json:"rule,omitempty"`
	Also     []string `json:"also,omitempty"`
	Not      []string `json:"not,omitempty"`
	Except   bool     `json:"except,omitempty"`
}

// Times are when it is, besides its first time and its rule.
func (e calendarEntry) Times() string {
	var all []string
	for _, of := range []struct {
		word  string
		times []string
	}{{"also", e.Also}, {"not", e.Not}} {
		if n := len(of.times); n > 3 {
			all = append(all, of.word+" "+strings.Join(of.times[:3], ", ")+" and "+strconv.Itoa(n-3)+" more")
		} else if n > 0 {
			all = append(all, of.word+" "+strings.Join(of.times, ", "))
		}
	}
	return strings.Join(all, "; ")
}

// mayPlan says whether whom the page serves may write calendars and blackout windows.
func (w Who) mayPlan() bool { return w.Superadmin() && w.Administers }

type calendarsView struct {
	common
	Calendars   []calendar
	Next, First string
	MayPlan     bool
}

// calendars are those that schedules may name.
func (p *pages) calendars(q *request) error {
	var found struct {
		Calendars []calendar `json:"calendars"`
		Next      *string    `json:"next_page_token"`
	}
	asked := q.listed()
	if err := q.get("/calendars", asked, &found); err != nil {
		return err
	}
	view, now := calendarsView{common: q.common("Calendars", "administration"), Calendars: found.Calendars, MayPlan: q.who.mayPlan()}, time.Now()
	for i := range view.Calendars {
		c := &view.Calendars[i]
		c.Changed = q.zone.in(&c.UpdatedAt, c.TimeZone, now)
	}
	view.Next, view.First = q.around(asked, found.Next)
	q.render(http.StatusOK, "calendars.html", view)
	return nil
}

type calendarView struct {
	common
	Calendar calendar
	Tag      string
	Coming   []comingTime
	LeftOut  []string
	MayPlan  bool
}

type comingTime struct {
	Name     string
	From, To *moment
}

func calendarPath(name string) string { return "/calendars/" + url.PathEscape(name) }

// calendar is one of them, with its entries and its next times.
func (p *pages) calendar(q *request) error { return q.showCalendar(q.PathValue("name"), "", nil) }

// showCalendar shows one; done says what was done before, and leftOut what of a file it does not have.
func (q *request) showCalendar(name, done string, leftOut []string) error {
	view := calendarView{LeftOut: leftOut, MayPlan: q.who.mayPlan()}
	var err error
	if view.Tag, err = q.versioned(calendarPath(name), &view.Calendar); err != nil {
		return err
	}
	c, now := &view.Calendar, time.Now()
	c.Changed = q.zone.in(&c.UpdatedAt, c.TimeZone, now)
	for _, t := range c.Coming {
		view.Coming = append(view.Coming, comingTime{t.Name, q.zone.in(&t.From, c.TimeZone, now), q.zone.in(t.To, c.TimeZone, now)})
	}
	view.common = q.common("Calendar "+c.Name, "administration")
	if done != "" {
		view.Said = said[done]
	}
	q.render(http.StatusOK, "calendar.html", view)
	return nil
}

// addCalendar adds one: of a file, or of one entry, or empty.
func (p *pages) addCalendar(q *request) error {
	file, err := q.calendarForm()
	if err != nil {
		return err
	}
	name, zone, entries := strings.TrimSpace(q.PostFormValue("name")), strings.TrimSpace(q.PostFormValue("time_zone")), []calendarEntry{}
	var leftOut []string
	if file != "" {
		if zone, entries, leftOut, err = q.readCalendar(zone, file); err != nil {
			return err
		}
	} else if q.PostFormValue("start") != "" {
		entries = append(entries, q.entry())
	}
	asked := Operation{Method: http.MethodPut, Path: calendarPath(name), Body: map[string]any{"time_zone": zone, "entries": entries}, IfNoneMatch: "*", Note: q.PostFormValue("note")}
	if _, err := q.service.Ask(q.Context(), asked, nil); err != nil {
		return err
	}
	if len(leftOut) > 0 {
		return q.showCalendar(name, "calendar", leftOut)
	}
	http.Redirect(q.ResponseWriter, q.Request, q.zone.to(calendarPath(name), "said", "calendar"), http.StatusSeeOther)
	return nil
}

// changeCalendar does something to the version of a calendar that the form has shown.
func (p *pages) changeCalendar(q *request) error {
	file, err := q.calendarForm()
	if err != nil {
		return err
	}
	name := q.PathValue("name")
	var stands calendar
	if err := q.get(calendarPath(name), nil, &stands); err != nil {
		return err
	}
	asked := Operation{Method: http.MethodPut, Path: calendarPath(name), IfMatch: q.PostFormValue("version"), Note: q.PostFormValue("note")}
	zone, entries := stands.TimeZone, stands.All
	var leftOut []string
	switch q.PathValue("action") {
	case "delete":
		asked.Method = http.MethodDelete
		if _, err := q.service.Ask(q.Context(), asked, nil); err != nil {
			return err
		}
		http.Redirect(q.ResponseWriter, q.Request, q.zone.to("/calendars", "said", "uncalendar"), http.StatusSeeOther)
		return nil
	case "zone":
		zone = strings.TrimSpace(q.PostFormValue("time_zone"))
	case "add":
		entries = append(entries, q.entry())
	case "remove":
		n, err := strconv.Atoi(q.PostFormValue("entry"))
		if err != nil || n < 0 || n >= len(entries) {
			return problem.Invalid("entry", "must be the number of an entry")
		}
		entries = append(entries[:n], entries[n+1:]...)
	case "file":
		if file == "" {
			return problem.Invalid("file", "is empty; choose an iCalendar file")
		}
		if zone, entries, leftOut, err = q.readCalendar(strings.TrimSpace(q.PostFormValue("time_zone")), file); err != nil {
			return err
		}
	default:
		return problem.NotFound("action")
	}
	asked.Body = map[string]any{"time_zone": zone, "entries": entries}
	if _, err := q.service.Ask(q.Context(), asked, nil); err != nil {
		return err
	}
	if len(leftOut) > 0 {
		return q.showCalendar(name, "calendar", leftOut)
	}
	http.Redirect(q.ResponseWriter, q.Request, q.zone.to(calendarPath(name), "said", "calendar"), http.StatusSeeOther)
	return nil
}

// calendarForm reads a form that may have an iCalendar file; empty: it has none.
func (q *request) calendarForm() (file string, err error) {
	if body, is := q.Context().Value(filesKey{}).(io.ReadCloser); is {
		q.Body = http.MaxBytesReader(q.ResponseWriter, body, maxCalendarForm)
	}
	err = q.ParseMultipartForm(maxCalendarForm)
	if errors.Is(err, http.ErrNotMultipart) {
		return "", nil // a form without a file
	}
	if err != nil {
		return "", problem.Invalid("form", "cannot be read, or is longer than 512 KiB")
	}
	found, _, err := q.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) {
		return "", nil
	}
	if err != nil {
		return "", problem.Invalid("file", "cannot be read")
	}
	defer func() { _ = found.Close() }() // it is in memory
	text, err := io.ReadAll(found)
	if err != nil {
		return "", problem.Invalid("file", "cannot be read")
	}
	return string(text), nil
}

// readCalendar reads a file as what a calendar may have.
func (q *request) readCalendar(zone, file string) (string, []calendarEntry, []string, error) {
	var read struct {
		TimeZone string          `json:"time_zone"`
		Entries  []calendarEntry `json:"entries"`
		LeftOut  []string        `json:"left_out"`
	}
	asked := url.Values{}
	if zone != "" {
		asked.Set("time_zone", zone)
	}
	_, err := q.service.Ask(q.Context(), Operation{Method: http.MethodPost, Path: "/icalendar", Query: asked, Form: strings.NewReader(file), FormType: "text/calendar"}, &read)
	return read.TimeZone, read.Entries, read.LeftOut, err
}

// entry is the one that a form has.
func (q *request) entry() calendarEntry {
	value := func(name string) string { return strings.TrimSpace(q.PostFormValue(name)) }
	return calendarEntry{Name: value("entry_name"), Start: value("start"), End: value("end"), Rule: value("rule"), Except: value("except") == "true"}
}
