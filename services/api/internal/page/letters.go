package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// letter is a message that a service gave up on.
type letter struct {
	ID           int64     `json:"id"`
	Version      string    `json:"version"`
	Subject      string    `json:"subject"`
	Reason       string    `json:"reason"`
	Tries        int64     `json:"tries"`
	Session      *string   `json:"session"`
	ConnectorID  *int32    `json:"connector_id"`
	SourceID     *string   `json:"source_id"`
	LastAt       time.Time `json:"last_at"`
	SizeBytes    int64     `json:"size_bytes"`
	CutFromBytes int64     `json:"cut_from_bytes"`
	Document     *struct {
		Status string  `json:"status"`
		Error  *string `json:"error"`
	} `json:"document"`
	Message rawObject `json:"message"`
	Problem *string   `json:"problem"`

	// Name is what its source is called; empty where there is none, or none that is still there.
	Name    string  `json:"-"`
	GivenUp *moment `json:"-"`
}

// What is the message, in words.
func (l letter) What() string {
	switch {
	case l.SourceID != nil:
		return *l.SourceID
	case strings.HasPrefix(l.Subject, "connector.sync."):
		return "what asks for a sync"
	}
	return "a message that names no document"
}

// SourcePath is the page of the source that it is of.
func (l letter) SourcePath() string { return fmt.Sprintf("/sources/%d", *l.ConnectorID) }

// MayReplay says whether there is something to fetch again.
func (l letter) MayReplay() bool { return l.Name != "" }

// letterRights are what whom the page serves may do to dead letters.
type letterRights struct{ Replays, Drops bool }

func (w Who) letterRights() letterRights {
	return letterRights{Replays: w.Superadmin() && w.Operates, Drops: w.Superadmin() && w.Writes}
}

type lettersView struct {
	common
	letterRights
	Letters                      []letter
	Subject, ConnectorID, Reason string
	Filtered                     bool
	Next, First, Back            string
}

// letters are what services gave up on, in the order in which they did.
func (p *pages) letters(q *request) error {
	asked := q.listed("subject", "connector_id", "reason")
	var found struct {
		Letters []letter `json:"dead_letters"`
		Next    *string  `json:"next_page_token"`
	}
	if err := q.get("/deadletters", asked, &found); err != nil {
		return err
	}
	view := lettersView{common: q.common("Dead letters", "problems"), letterRights: q.who.letterRights(), Letters: found.Letters, Subject: asked.Get("subject"),
		ConnectorID: asked.Get("connector_id"), Reason: asked.Get("reason"), Back: q.with("", "")}
	view.Filtered = view.Subject != "" || view.ConnectorID != "" || view.Reason != ""
	view.Next, view.First = q.around(asked, found.Next)
	if err := q.complete(view.Letters); err != nil {
		return err
	}
	q.render(http.StatusOK, "letters.html", view)
	return nil
}

// complete adds what letters do not say themselves.
func (q *request) complete(letters []letter) error {
	var ids []int32
	for _, l := range letters {
		if l.ConnectorID != nil {
			ids = append(ids, *l.ConnectorID)
		}
	}
	names, err := q.names(ids)
	now := time.Now()
	for i := range letters {
		l := &letters[i]
		l.GivenUp = q.zone.in(&l.LastAt, "UTC", now)
		if l.ConnectorID != nil {
			l.Name = names[*l.ConnectorID]
		}
	}
	return err
}

type letterView struct {
	common
	letterRights
	Letter letter
	Back   string
}

func letterPath(q *request) string { return "/deadletters/" + url.PathEscape(q.PathValue("seq")) }

// letter is one of them, with what it carries.
func (p *pages) letter(q *request) error {
	one := make([]letter, 1)
	if err := q.get(letterPath(q), nil, &one[0]); err != nil {
		return err
	}
	if err := q.complete(one); err != nil {
		return err
	}
	q.render(http.StatusOK, "letter.html", letterView{common: q.common(fmt.Sprintf("Dead letter %d", one[0].ID), "problems"), letterRights: q.who.letterRights(),
		Letter: one[0], Back: q.zone.to("/deadletters")})
	return nil
}

// replay has what a letter is about fetched again, and removes it.
func (p *pages) replay(q *request) error { return q.changeLetter(http.MethodPost, "/replay", "replay") }

// drop removes a letter for good.
func (p *pages) drop(q *request) error { return q.changeLetter(http.MethodDelete, "", "drop") }

// changeLetter is of the letter that was shown: its number may be another one's by now.
func (q *request) changeLetter(method, below, done string) error {
	if _, err := q.service.Ask(q.Context(), Operation{Method: method, Path: letterPath(q) + below, IfMatch: strconv.Quote(q.PostFormValue("version"))}, nil); err != nil {
		return err
	}
	q.back("/deadletters", done)
	return nil
}
