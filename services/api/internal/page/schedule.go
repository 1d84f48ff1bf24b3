package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/services/api/internal/problem"
)

// slot is what becomes of one slot of a schedule, or of several alike.
type slot struct {
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`

	At, Until *moment
	// Changed says that the other schedule has no such slot.
	Changed bool
}

// State is its verdict with its picture.
func (s slot) State() state { return stateOf(s.Verdict) }

// schedule is what a schedule does.
type schedule struct {
	Called string  `json:"schedule"`
	Zone   string  `json:"time_zone"`
	Slots  []slot  `json:"slots"`
	Note   string  `json:"note"`
	Asks   *string `json:"condition"`
}

// nextSlots is how many lines of a schedule are shown.
const nextSlots = 20

// foreseen are the next slots of a source. One whose schedule cannot be read has a note instead.
func (q *request) foreseen(c connector, set string) (*schedule, error) {
	now, _, err := q.preview(c, set)
	return now, err
}

// preview are the next slots of a source, and those that it would have.
func (q *request) preview(c connector, set string) (now, other *schedule, err error) {
	var found struct {
		Now *schedule `json:"now"`
		Set *schedule `json:"set"`
	}
	asked := url.Values{"hours": {"744"}}
	if set != "" {
		asked.Set("set", set)
	}
	err = q.get(fmt.Sprintf("/connectors/%d/schedule/preview", c.ID), asked, &found)
	if p := problem.Of(err); err != nil && p.Status == http.StatusConflict {
		return &schedule{Called: c.Schedule(), Note: p.Detail}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, s := range []*schedule{found.Now, found.Set} {
		if s == nil {
			continue
		}
		s.Slots = s.Slots[:min(len(s.Slots), nextSlots)]
		at := time.Now()
		for i := range s.Slots {
			one := &s.Slots[i]
			one.At, one.Until = q.zone.in(&one.First, s.Zone, at), q.zone.in(&one.Last, s.Zone, at)
		}
	}
	if found.Set != nil {
		differ(found.Now, found.Set)
		differ(found.Set, found.Now)
	}
	return found.Now, found.Set, nil
}

// differ marks the slots that another schedule does not have, or treats otherwise, as far as that schedule is shown.
func differ(s, other *schedule) {
	n := len(other.Slots)
	isCut := n == nextSlots
	has := map[string]bool{}
	for _, o := range other.Slots {
		has[fmt.Sprint(o.First.UnixNano(), o.Verdict, o.Reason)] = true
	}
	for i, one := range s.Slots {
		if isCut && one.First.After(other.Slots[n-1].First) {
			return
		}
		s.Slots[i].Changed = !has[fmt.Sprint(one.First.UnixNano(), one.Verdict, one.Reason)]
	}
}

// field is one of the schedule's form.
type field struct {
	Name, Label, Hint, Value, Problem string
	// Options are what may be chosen; none: it is typed.
	Options []string
	IsText  bool
}

// scheduleFields are what a schedule is made of, with what stands for "not said".
func scheduleFields(c connector) []field {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	number := func(n *int32) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(int(*n))
	}
	return []field{
		{Name: "refresh_freq_minutes", Label: "Interval", Hint: "Minutes from one sync to the next; 0 = once. Empty, with no times: only when somebody asks.", Value: number(c.RefreshFreqMinutes)},
		{Name: "schedule_cron", Label: "Times", Hint: "Five fields as in crontab, instead of an interval: 0 3 * * 1-5", Value: text(c.ScheduleCron), IsText: true},
		{Name: "time_zone", Label: "Time zone", Hint: "What the times are meant in: Europe/Berlin", Value: c.TimeZone, IsText: true},
		{Name: "dst_gap", Label: "Times that the clocks leave out", Value: text(c.DSTGap), Options: []string{"", "after", "skip", "before"}},
		{Name: "dst_overlap", Label: "Times that the clocks show twice", Value: text(c.DSTOverlap), Options: []string{"", "first", "second", "both"}},
		{Name: "spread_percent", Label: "Spread of an interval", Hint: "Percent of it, 0 to 100", Value: strconv.Itoa(int(c.SpreadPercent))},
		{Name: "deadline_minutes", Label: "Deadline", Hint: "Minutes after which a slot is missed; empty = none", Value: number(c.DeadlineMinutes)},
		{Name: "overlap", Label: "A slot while it still syncs", Value: c.Overlap, Options: []string{"skip", "queue"}},
		{Name: "once_per", Label: "At most one sync per", Value: text(c.OncePer), Options: []string{"", "day", "week", "month"}},
		{Name: "catch_up", Label: "Slots that an outage has left", Value: c.CatchUp, Options: []string{"none", "latest", "all"}},
		{Name: "catch_up_most", Label: "Most of those", Hint: "For all: 1 to 1000", Value: strconv.Itoa(int(c.CatchUpMost))},
		{Name: "catch_up_minutes", Label: "None older than", Hint: "Minutes; empty = any", Value: number(c.CatchUpMinutes)},
		{Name: "calendar", Label: "Calendar", Hint: "Its name, of those under Calendars; empty = none", Value: text(c.Calendar), IsText: true},
		{Name: "calendar_use", Label: "On the calendar's times", Hint: "Slots run on none of them, or on no others", Value: c.CalendarUse, Options: []string{"exclude", "only"}},
	}
}

var numbers = map[string]bool{"refresh_freq_minutes": true, "spread_percent": true, "deadline_minutes": true, "catch_up_most": true, "catch_up_minutes": true}

// changes are the fields of a form that are not as they stand, as the API takes them.
func changes(fields []field, form url.Values) (map[string]any, error) {
	changed := map[string]any{}
	for i, f := range fields {
		values, given := form[f.Name]
		if !given || len(values) == 0 {
			continue
		}
		value := strings.TrimSpace(values[0])
		fields[i].Value = value
		switch {
		case value == f.Value:
		case value == "":
			changed[f.Name] = nil
		case numbers[f.Name]:
			n, err := strconv.Atoi(value)
			if err != nil {
				fields[i].Problem = "must be a whole number"
				return nil, problem.Invalid(f.Name, "must be a whole number")
			}
			changed[f.Name] = n
		default:
			changed[f.Name] = value
		}
	}
	return changed, nil
}

type scheduleView struct {
	common
	Source   connector
	Fields   []field
	Now, Set *schedule
	Version  string
	Problem  *problem.Problem
	Changed  bool
}

// schedule shows the form of a schedule, and what would become of its slots. Nothing is changed.
func (p *pages) schedule(q *request) error { return q.editSchedule(q.URL.Query(), false) }

// changeSchedule changes a schedule, of the version that the form was made of.
func (p *pages) changeSchedule(q *request) error {
	if err := q.ParseForm(); err != nil {
		return problem.Invalid("form", "cannot be read")
	}
	return q.editSchedule(q.PostForm, true)
}

func (q *request) editSchedule(form url.Values, save bool) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	view := scheduleView{}
	path := fmt.Sprintf("/connectors/%d", id)
	answered, err := q.service.Ask(q.Context(), Operation{Method: http.MethodGet, Path: path}, &view.Source)
	if err != nil {
		return err
	}
	if view.Version = answered.Get("ETag"); form.Get("version") != "" {
		view.Version = form.Get("version")
	}
	view.common, view.Fields = q.common("Schedule of "+view.Source.Name, "sources"), scheduleFields(view.Source)
	set, err := changes(view.Fields, form)
	view.Changed = len(set) > 0
	if err == nil && save && view.Changed {
		if _, err = q.service.Ask(q.Context(), Operation{Method: http.MethodPatch, Path: path, Body: set, IfMatch: view.Version, Note: form.Get("note")}, nil); err == nil {
			http.Redirect(q.ResponseWriter, q.Request, fmt.Sprintf("/sources/%d?said=schedule", id), http.StatusSeeOther)
			return nil
		}
	}
	status := http.StatusOK
	if err == nil {
		asked := ""
		if view.Changed {
			text, err := json.Marshal(set)
			if err != nil {
				return err
			}
			asked = string(text)
		}
		view.Now, view.Set, err = q.preview(view.Source, asked)
	}
	if err != nil { // what is wrong stands beside its field; what is right is not typed again
		found := problem.Of(err)
		if found.Status == http.StatusNotFound || found.Status >= http.StatusInternalServerError {
			return err
		}
		view.Problem, status = found, found.Status
		if status == http.StatusPreconditionFailed { // a user who presses again has been told
			view.Version = answered.Get("ETag")
		}
		for i, f := range view.Fields {
			for _, wrong := range found.Errors {
				if strings.HasSuffix(wrong.Field, "."+f.Name) || wrong.Field == f.Name {
					view.Fields[i].Problem = wrong.Detail
				}
			}
		}
		if view.Now, err = q.foreseen(view.Source, ""); err != nil {
			return err
		}
	}
	q.render(status, "schedule.html", view)
	return nil
}
