package page

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/echomind/sync/internal/clock"
)

// rawObject is JSON, as it came.
type rawObject json.RawMessage

// UnmarshalJSON is part of json.Unmarshaler.
func (o *rawObject) UnmarshalJSON(text []byte) error {
	*o = bytes.Clone(text)
	return nil
}

// String is the same for people.
func (o rawObject) String() string {
	var out bytes.Buffer
	if err := json.Indent(&out, o, "", "  "); err != nil {
		return string(o)
	}
	return out.String()
}

type why struct {
	Cause    string   `json:"cause"`
	Why      string   `json:"why"`
	Next     string   `json:"next"`
	Evidence []string `json:"evidence"`
}

// remedies are who can do something about a cause; of others it goes on by itself.
var remedies = map[string]string{
	"no_subscriber": "the operator: a worker of its type is to run", "broker_away": "the operator: NATS is to answer", "broker_refuses": "the operator: NATS is to take messages again",
	"scheduler_away": "the operator: a scheduler is to run", "scheduler_idle": "the operator: a scheduler is to work", "nobody_stores": "the operator: semantic is to run",
	"documents_full": "the operator, if it lasts: semantic is to store faster", "cap_full": "the operator, if it lasts: the type may have more at once",
	"waits_for_key": "the operator, if it lasts: the concurrency key may have more at once",
	"in_blackout":   "an administrator, who wrote the blackout window",
	"owner_full":    "the operator, if it lasts: the owner may have more at once", "queued_behind_others": "the operator, if it lasts: more workers",
	"failed_for_good": "who may change this source: correct it, or sync it", "cannot_be_planned": "who may change this source: correct its schedule",
	"disabled_by_user": "who may change this source: enable it", "disabled_by_failures": "who may change this source: correct it, and enable it",
	"manual_only": "who may change this source: sync it, or give it a schedule", "once_only": "who may change this source: sync it, or give it a schedule",
	"backing_off": "who looks after what it reads, if that goes on to fail", "told_to_wait": "who looks after what it reads, if that lasts",
	"waits_for_lock": "who may take the lock, if that lasts", "waits_for_upstream": "who looks after the sources that it runs after, if that lasts", "run_missing": "who may change this source: disable and enable it",
}

// phase is a part of a run in its timeline.
type phase struct {
	Class, Title string
	X, Width     float64
}

// timeline is a run by its phases: until it was claimed, until a worker picked it up, until everything was fetched, until that was stored.
type timeline struct {
	ID      string
	State   state
	At      *moment
	Trigger string
	Reason  string
	Phases  []phase
	Words   string
	Took    string
	// Sent is how often workers were told of it.
	Sent   int32
	Counts string
	// Progress is how far an open run has come, as its worker says, and how many of its messages are stored.
	Progress string
	IsOpen   bool
}

const timelineWidth = 360.0

// phasesOf measures a run. What has not begun has no phase.
func phasesOf(r run, now time.Time) (all []phase, spans []time.Duration) {
	stops := []struct {
		class, words string
		until        *time.Time
	}{{"due", "waited to be claimed", &r.StartedAt}, {"queued", "waited for a worker", r.PickedUpAt}, {"fetching", "fetched", r.FetchedAt}, {"storing", "stored", r.CompletedAt}}
	from := r.DueAt
	for _, stop := range stops {
		until := stop.until
		if until == nil {
			if until = r.CompletedAt; until == nil {
				until = &now
			}
		}
		span := max(until.Sub(from), 0)
		all = append(all, phase{Class: stop.class, Title: stop.words + " " + clock.Span(span)})
		spans = append(spans, span)
		if stop.until == nil {
			break
		}
		from = *until
	}
	return all, spans
}

// progressOf says how far an open run has come.
func progressOf(r run) string {
	var said []string
	if text := clock.Progress(r.ProgressDone, r.ProgressTotal, r.ProgressText); text != "" {
		said = append(said, text)
	}
	switch {
	case r.Total != nil:
		said = append(said, fmt.Sprintf("%d of %d messages are stored", r.Stored, *r.Total))
	case r.Stored > 0:
		said = append(said, fmt.Sprintf("%d messages are stored so far", r.Stored))
	}
	return strings.Join(said, "; ")
}

// timelinesOf draws runs on one scale.
func (q *request) timelinesOf(runs []run, schedule string, now time.Time) []timeline {
	longest := time.Second
	for _, r := range runs {
		_, spans := phasesOf(r, now)
		longest = max(longest, total(spans))
	}
	var out []timeline
	for _, r := range runs {
		t := timeline{ID: r.ID, State: stateOf(r.Status), At: q.zone.in(&r.DueAt, schedule, now), Trigger: r.Trigger, IsOpen: r.Status == "running", Sent: r.Dispatches}
		if r.Reason != nil {
			t.Reason = *r.Reason
		}
		if r.ErrorMessage != nil && *r.ErrorMessage != "" {
			t.Reason += ": " + *r.ErrorMessage
		}
		if r.MissedCount != nil {
			t.Words = titleOf(r, func(at *time.Time) *moment { return q.zone.in(at, schedule, now) })
			out = append(out, t)
			continue
		}
		phases, spans := phasesOf(r, now)
		x := 0.0
		for i := range phases {
			phases[i].X, phases[i].Width = x, max(2, timelineWidth*float64(spans[i])/float64(longest))
			x += phases[i].Width
			if t.Words != "" {
				t.Words += ", "
			}
			t.Words += phases[i].Title
		}
		for i, scale := 0, timelineWidth/max(x, timelineWidth); i < len(phases); i++ { // what was widened to be seen takes no more room than there is
			phases[i].X, phases[i].Width = phases[i].X*scale, phases[i].Width*scale
		}
		t.Phases, t.Took = phases, clock.Span(total(spans))
		t.Counts = fmt.Sprintf("%d new or changed, %d unchanged, %d failed, %d deleted", r.DocumentsProcessed, r.DocumentsUnchanged, r.DocumentsFailed, r.DocumentsDeleted)
		if t.IsOpen {
			t.Progress = progressOf(r)
		}
		out = append(out, t)
	}
	return out
}

func total(spans []time.Duration) (sum time.Duration) {
	for _, span := range spans {
		sum += span
	}
	return sum
}

type entry struct {
	At     time.Time `json:"at"`
	Person string    `json:"person"`
	Source string    `json:"source"`
	Action string    `json:"action"`
	Note   *string   `json:"note"`
	Object string    `json:"object_id"`
	Before rawObject `json:"before"`
	After  rawObject `json:"after"`
	Moment *moment   `json:"-"`
}

// Changes is what was changed, from what to what.
func (e entry) Changes() string {
	if e.Before.String() == "null" && e.After.String() == "null" {
		return ""
	}
	return e.Before.String() + " → " + e.After.String()
}

type sourceView struct {
	common
	Source     connector
	State      state
	Last, Next *moment
	Why        why
	Remedy     string
	Strip      strip
	Timelines  []timeline
	Slots      *schedule
	Files      *filesView
	Failures   failures
	Audit      []entry
	MayOperate bool
	MayWrite   bool
	MayFetch   bool
	Back       string
	Once       string
	Created    *moment
	Updated    *moment
	// Provider is who gives the consent for it, if anybody does; Asks says whether the service may ask there.
	Provider string
	Asks     bool
}

// source is one source: where it stands, why, what it did, and what it will do.
func (p *pages) source(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	view := sourceView{}
	path := fmt.Sprintf("/connectors/%d", id)
	if err := q.get(path, nil, &view.Source); err != nil {
		return err
	}
	c, now := view.Source, time.Now()
	if err := q.get(path+"/why", nil, &view.Why); err != nil {
		return err
	}
	var runs struct {
		Runs []run `json:"runs"`
	}
	if err := q.get(path+"/runs", url.Values{"page_size": {"30"}}, &runs); err != nil {
		return err
	}
	if view.Slots, err = q.foreseen(c, ""); err != nil {
		return err
	}
	if view.Files, err = q.files(c); err != nil {
		return err
	}
	if view.Failures, err = q.failures(id); err != nil {
		return err
	}
	var audit struct {
		Entries []entry `json:"entries"`
	}
	if err := q.get("/audit", url.Values{"connector_id": {fmt.Sprint(id)}, "page_size": {"10"}}, &audit); err != nil {
		return err
	}
	for i := range audit.Entries {
		audit.Entries[i].Moment = q.zone.in(&audit.Entries[i].At, c.TimeZone, now)
	}
	view.common, view.State, view.Audit, view.Back, view.Once = q.common(c.Name, "sources"), stateOf(c.Status), audit.Entries, q.with("", ""), rand.Text()
	view.Last, view.Next = q.zone.in(c.LastSyncAt, c.TimeZone, now), q.zone.in(c.NextSyncAt, c.TimeZone, now)
	view.Created, view.Updated = q.zone.in(&c.CreatedAt, c.TimeZone, now), q.zone.in(&c.UpdatedAt, c.TimeZone, now)
	if view.Remedy = remedies[view.Why.Cause]; view.Remedy == "" {
		view.Remedy = "nobody needs to do anything"
	}
	view.Strip = stripOf(runs.Runs, func(t *time.Time) *moment { return q.zone.in(t, c.TimeZone, now) })
	view.Timelines = q.timelinesOf(runs.Runs[:min(len(runs.Runs), 10)], c.TimeZone, now)
	view.Provider, view.Asks = q.service.Provider(c.Type)
	view.MayOperate, view.MayWrite = c.MayChange && q.who.Operates, c.MayChange && q.who.Writes
	view.MayFetch = view.MayOperate && c.Status != "DISABLED"
	q.render(http.StatusOK, "source.html", view)
	return nil
}

type badgeView struct {
	common
	ID   int32
	Path string // empty where it was shown before
	Back string
}

// makeBadge makes the link of a source's badge, and shows it this once.
func (p *pages) makeBadge(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	var made struct {
		Path string `json:"path"`
	}
	asked := Operation{Method: http.MethodPost, Path: fmt.Sprintf("/connectors/%d/badge", id), Key: q.PostFormValue("once")}
	if _, err := q.service.Ask(q.Context(), asked, &made); err != nil {
		return err
	}
	q.render(http.StatusOK, "badge.html", badgeView{q.common("Badge", "sources"), id, made.Path, q.zone.to(fmt.Sprintf("/sources/%d", id))})
	return nil
}

func (p *pages) revokeBadge(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	if err := q.ask(http.MethodPost, fmt.Sprintf("/connectors/%d/badge/revoke", id), nil, nil, nil); err != nil {
		return err
	}
	q.back(fmt.Sprintf("/sources/%d", id), "badge")
	return nil
}
