package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// document is one of a source's.
type document struct {
	SourceID  string    `json:"source_id"`
	Title     string    `json:"title"`
	Status    string    `json:"status"`
	Error     *string   `json:"error"`
	UpdatedAt time.Time `json:"updated_at"`

	State state   `json:"-"`
	At    *moment `json:"-"`
}

// Name is its title, or what the source calls it where it has none.
func (d document) Name() string {
	if d.Title == "" {
		return d.SourceID
	}
	return d.Title
}

// reason are documents that failed in the same way.
type reason struct {
	Why   string
	Count int
	Names []string
	More  int
}

const (
	// failedLook is how many failed documents are grouped.
	failedLook = 500
	// namedFailures is how many documents a group names.
	namedFailures = 10
	// documentRows is how many documents are on a page.
	documentRows = 50
)

// failures are the failed documents of a source by what went wrong, the largest group first.
type failures struct {
	Reasons []reason
	Looked  int
	// More says that there are more than were looked at.
	More bool
}

type documentsFound struct {
	Documents []document `json:"documents"`
	Next      *string    `json:"next_page_token"`
}

// failures groups those that come first by their names.
func (q *request) failures(id int32) (out failures, err error) {
	var found documentsFound
	asked := url.Values{"status": {"failed"}, "page_size": {fmt.Sprint(failedLook)}}
	if err := q.get(fmt.Sprintf("/connectors/%d/documents", id), asked, &found); err != nil {
		return out, err
	}
	out.Looked, out.More = len(found.Documents), found.Next != nil
	at := map[string]int{}
	for _, d := range found.Documents {
		why := ""
		if d.Error != nil {
			why = *d.Error
		}
		key := particular.ReplaceAllString(why, "")
		i, known := at[key]
		if !known {
			i = len(out.Reasons)
			at[key], out.Reasons = i, append(out.Reasons, reason{Why: why})
		}
		r := &out.Reasons[i]
		if r.Count++; len(r.Names) < namedFailures {
			r.Names = append(r.Names, d.SourceID)
		} else {
			r.More++
		}
	}
	slices.SortStableFunc(out.Reasons, func(a, b reason) int { return b.Count - a.Count })
	return out, nil
}

type documentsView struct {
	common
	Source      connector
	Failures    failures
	Documents   []document
	Status      string
	Prefix      string
	States      []choice
	Next, First string
	Back        string
	// MayFetch says whether a sync may be asked for, which fetches again what failed.
	MayFetch bool
}

var documentStates = []string{"stored", "failed", "partial", "deleted"}

// documents are those of a source, and why those failed that did.
func (p *pages) documents(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	view := documentsView{}
	if err := q.get(fmt.Sprintf("/connectors/%d", id), nil, &view.Source); err != nil {
		return err
	}
	asked := q.listed("status", "prefix")
	asked.Set("page_size", fmt.Sprint(documentRows))
	var found documentsFound
	if err := q.get(fmt.Sprintf("/connectors/%d/documents", id), asked, &found); err != nil {
		return err
	}
	if view.Failures, err = q.failures(id); err != nil {
		return err
	}
	c, now := view.Source, time.Now()
	for i := range found.Documents {
		d := &found.Documents[i]
		d.State, d.At = stateOf(documentState(d.Status)), q.zone.in(&d.UpdatedAt, c.TimeZone, now)
	}
	view.common, view.Documents, view.Back = q.common("Documents of "+c.Name, "sources"), found.Documents, q.with("", "")
	view.Status, view.Prefix = asked.Get("status"), asked.Get("prefix")
	view.States = append(view.States, choice{"All", q.with("status", ""), view.Status == ""})
	for _, s := range documentStates {
		view.States = append(view.States, choice{stateOf(documentState(s)).Word, q.with("status", s), view.Status == s})
	}
	view.Next, view.First = q.around(asked, found.Next)
	view.MayFetch = c.MayChange && q.who.Operates && c.Status != "DISABLED"
	q.render(http.StatusOK, "documents.html", view)
	return nil
}

// documentState tells the states of documents from those of runs.
func documentState(status string) string { return "document " + status }
