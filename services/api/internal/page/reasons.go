package page

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"time"
)

// letterReason are dead letters that were given up for the same reason.
type letterReason struct {
	Reason     string    `json:"reason"`
	Letters    int64     `json:"letters"`
	EarliestAt time.Time `json:"earliest_at"`
	LatestAt   time.Time `json:"latest_at"`
	Connectors []int32   `json:"connectors"`

	Earliest, Latest *moment  `json:"-"`
	Sources          []source `json:"-"`
	// List is where they are listed one by one; empty: they have no reason to be found by.
	List string `json:"-"`
}

// Words are what it is called.
func (r letterReason) Words() string {
	if r.Reason == "" {
		return "no reason was given"
	}
	return r.Reason
}

type reasonsView struct {
	common
	letterRights
	Reasons     []letterReason
	More        int64
	Looked      int64
	Next, First string
	Back        string
}

// reasons are dead letters by why they were given up.
func (p *pages) reasons(q *request) error {
	asked := q.placed("page")
	asked.Del("page_size")
	var found struct {
		Groups []letterReason `json:"groups"`
		More   int64          `json:"more_groups"`
		Looked int64          `json:"looked"`
		Next   *string        `json:"next_page_token"`
	}
	if err := q.get("/deadletters/groups", asked, &found); err != nil {
		return err
	}
	view := reasonsView{common: q.common("Dead letters by reason", "problems"), letterRights: q.who.letterRights(), Reasons: found.Groups, More: found.More, Looked: found.Looked, Back: q.with("", "")}
	view.Next, view.First = q.around(asked, found.Next)
	var ids []int32
	for _, r := range view.Reasons {
		ids = append(ids, r.Connectors...)
	}
	names, err := q.names(ids)
	if err != nil {
		return err
	}
	now := time.Now()
	for i := range view.Reasons {
		r := &view.Reasons[i]
		r.Earliest, r.Latest = q.zone.in(&r.EarliestAt, "UTC", now), q.zone.in(&r.LatestAt, "UTC", now)
		if r.Reason != "" {
			r.List = q.zone.to("/deadletters", "reason", r.Reason)
		}
		for _, id := range r.Connectors {
			r.Sources = append(r.Sources, source{id, names[id]})
		}
	}
	q.render(http.StatusOK, "reasons.html", view)
	return nil
}

type doneView struct {
	common
	Reason letterReason
	// Do is what was done with them: replay, or drop.
	Do    string
	Found struct {
		Done int64 `json:"done"`
		Left []struct {
			Letters int64  `json:"letters"`
			Example int64  `json:"example"`
			Why     string `json:"why"`
			Fix     string `json:"fix"`
		} `json:"left"`
		Next *string `json:"next_page_token"`
	}
	// Sofar is how many were done by the forms before.
	Sofar int64
	Back  string
	// Once is the key of an operation on the others.
	Once string
}

// replayReason has what letters of a reason are about fetched again, and dropReason removes them: as many as one request does. The answer has a form that goes on.
func (p *pages) replayReason(q *request) error { return q.changeReason("replay") }

func (p *pages) dropReason(q *request) error { return q.changeReason("drop") }

func (q *request) changeReason(what string) error {
	view := doneView{Reason: letterReason{Reason: q.PostFormValue("reason")}, Do: what, Back: q.zone.to("/deadletters/reasons"), Once: rand.Text()}
	if back := q.PostFormValue("back"); back != "" {
		view.Back = local(back)
	}
	body := map[string]any{"reason": view.Reason.Reason}
	if place := q.PostFormValue("place"); place != "" {
		body["page_token"] = place
	}
	if sofar, err := numberOf(q.PostFormValue("sofar")); err == nil {
		view.Sofar = int64(sofar)
	}
	if _, err := q.service.Ask(q.Context(), Operation{Method: http.MethodPost, Path: "/deadletters/" + what, Body: body, Note: q.PostFormValue("note")}, &view.Found); err != nil {
		return err
	}
	view.Sofar += view.Found.Done
	view.common = q.common("Dead letters by reason", "problems")
	q.render(http.StatusOK, "reasonsdone.html", view)
	return nil
}

// createLettersOperation does that with all letters of a reason in the background.
func (p *pages) createLettersOperation(q *request) error {
	var made operation
	body := map[string]any{"action": q.PostFormValue("action"), "reason": q.PostFormValue("reason")}
	if _, err := q.service.Ask(q.Context(), Operation{Method: http.MethodPost, Path: "/deadletters/operations", Body: body, Key: q.PostFormValue("once")}, &made); err != nil {
		return err
	}
	http.Redirect(q.ResponseWriter, q.Request, q.zone.to(fmt.Sprintf("/operations/%d", made.ID)), http.StatusSeeOther)
	return nil
}
