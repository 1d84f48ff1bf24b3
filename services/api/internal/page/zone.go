package page

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/timezone"
)

// zone is in which one times are shown: that of each schedule, or one for all.
type zone struct {
	// Name is as the address has it; empty = that of each schedule.
	Name     string
	location *time.Location
}

// zoneOf is the zone that the address asks for. What is none is that of each schedule.
func zoneOf(r *http.Request) zone {
	name := r.URL.Query().Get("zone")
	location, err := timezone.Load(name)
	if err != nil {
		return zone{}
	}
	return zone{name, location}
}

// choice is a link to the same page, otherwise.
type choice struct {
	Word, URL string
	Chosen    bool
}

// zones are those that somebody may choose. The browser's own is known to the browser alone: its script adds it.
func (q *request) zones() []choice {
	all := []choice{{"schedule’s", q.with("zone", ""), q.zone.Name == ""}, {"UTC", q.with("zone", "UTC"), q.zone.Name == "UTC"}}
	if q.zone.Name != "" && q.zone.Name != "UTC" {
		all = append(all, choice{q.zone.Name, q.with("zone", q.zone.Name), true})
	}
	return all
}

// with is the address of this page with another value of a parameter; empty = without it. Of another filter it begins at the first page.
func (q *request) with(name, value string) string {
	values := q.URL.Query()
	values.Del("said")
	if name != "zone" && !slices.Contains(places, name) {
		values.Del("page")
	}
	if values.Set(name, value); value == "" {
		values.Del(name)
	}
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		return q.home()
	}
	if text := values.Encode(); text != "" {
		return q.URL.EscapedPath() + "?" + text
	}
	return q.URL.EscapedPath()
}

// home is the page that a form of this path is on.
func (q *request) home() string {
	switch parts := strings.Split(strings.Trim(q.URL.EscapedPath(), "/"), "/"); {
	case parts[0] == "tokens":
		return "/administration"
	case parts[0] == "deadletters" && len(parts) == 2:
		return "/deadletters/reasons"
	case (parts[0] == "calendars" || parts[0] == "blackouts") && len(parts) > 1 && parts[len(parts)-1] != "delete":
		return "/" + parts[0] + "/" + parts[1]
	case parts[0] == "calendars", parts[0] == "blackouts":
		return "/" + parts[0]
	case parts[0] == "locks", parts[0] == "problems":
		return "/problems"
	case parts[0] == "runs", parts[0] == "operations":
		return "/" + parts[0]
	case parts[0] == "sources" && len(parts) == 3 && parts[2] == "schedule":
		return q.URL.EscapedPath()
	case parts[0] == "sources" && len(parts) > 1:
		return "/sources/" + parts[1]
	}
	return "/"
}

// to is a path with the zone that is chosen, and other parameters.
func (z zone) to(path string, more ...string) string {
	values := url.Values{}
	if z.Name != "" {
		values.Set("zone", z.Name)
	}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			values.Set(more[i], more[i+1])
		}
	}
	if text := values.Encode(); text != "" {
		return path + "?" + text
	}
	return path
}

// To is to for templates.
func (c common) To(path string, more ...string) string { return c.Zone.to(path, more...) }

// moment is a time as it is shown: how far away it is, when that is, and in which zone.
type moment struct {
	ISO, Away, At string
}

// Of this year a time has no year; seconds are in what programs read of it.
const momentLayout, momentOfYear = "2 Jan 2006 15:04", "2 Jan 15:04"

// in is a moment in the zone that is chosen, else in that of a schedule.
func (z zone) in(t *time.Time, schedule string, now time.Time) *moment {
	if t == nil {
		return nil
	}
	location := z.location
	if location == nil {
		var err error
		if location, err = time.LoadLocation(schedule); err != nil {
			location = time.UTC
		}
	}
	away := clock.Ago(*t, now)
	if t.After(now) {
		away = "in " + clock.Span(t.Sub(now))
	}
	layout := momentLayout
	if t.In(location).Year() == now.In(location).Year() {
		layout = momentOfYear
	}
	return &moment{t.UTC().Format(time.RFC3339), away, t.In(location).Format(layout) + " " + location.String()}
}
