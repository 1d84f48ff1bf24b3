package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/echomind/sync/services/api/internal/problem"
)

// freshness is how fresh a source is.
type freshness struct {
	State        string `json:"state"`
	LimitMinutes *int32 `json:"limit_minutes"`
	How          string `json:"how"`
}

// hit is what the page reads of one.
type hit struct {
	ConnectorID int32     `json:"connector_id"`
	Connector   string    `json:"connector"`
	SourceID    string    `json:"source_id"`
	Title       string    `json:"title"`
	URL         string    `json:"url"`
	HeadingPath []string  `json:"heading_path"`
	Text        string    `json:"text"`
	CutBefore   bool      `json:"cut_before"`
	CutAfter    bool      `json:"cut_after"`
	Marks       []mark    `json:"marks"`
	StoredAt    time.Time `json:"stored_at"`
	Freshness   freshness `json:"freshness"`
}

type mark struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// piece is a part of a text, to be highlighted or not.
type piece struct {
	Text   string
	Marked bool
}

// pieces are the text of a hit.
func (h hit) pieces() (all []piece) {
	runes, at := []rune(h.Text), 0
	for _, m := range h.Marks {
		if m.Start < at || m.End > len(runes) || m.End < m.Start {
			continue // it marks nothing of this text
		}
		all = append(all, piece{plain(string(runes[at:m.Start])), false}, piece{plain(string(runes[m.Start:m.End])), true})
		at = m.End
	}
	return append(all, piece{plain(string(runes[at:])), false})
}

// plain is a text of a document without characters that reorder what stands beside it, hide, or control something.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.Is(unicode.Bidi_Control, r), unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
}

// weblink is an address that a browser may be led to; empty: it is none of the web.
func weblink(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.ContainsFunc(address, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return ""
	}
	return u.String()
}

// hitRow is a hit as it is shown.
type hitRow struct {
	ID                  int32
	Source, Title, Path string
	// Link is where its title leads; empty: nowhere.
	Link      string
	Pieces    []piece
	CutBefore bool
	CutAfter  bool
	Stored    *moment
	Fresh     state
	How       string
}

type named struct {
	ConnectorID int32  `json:"connector_id"`
	Name        string `json:"name"`
}

type searched struct {
	Sources          int32   `json:"sources"`
	NeverSynced      int32   `json:"never_synced"`
	NeverSyncedFirst []named `json:"never_synced_first"`
	Whole            bool    `json:"whole"`
}

// Of says how many sources they are.
func (s searched) Of() string {
	switch {
	case s.Sources == 1:
		return "1 source"
	case s.Sources >= 10_000:
		return "10,000 sources or more"
	}
	return fmt.Sprintf("%d sources", s.Sources)
}

// Never says how many have never synced.
func (s searched) Never() string {
	switch {
	case s.Sources == 1:
		return "It has never synced"
	case s.NeverSynced == 1:
		return "1 of them has never synced"
	}
	return fmt.Sprintf("%d of them have never synced", s.NeverSynced)
}

type searchView struct {
	common
	Q, Scope string
	Asked    bool
	// Chosen are the numbers of the sources that are searched; empty: all.
	Chosen   []string
	Choices  []sourceChoice
	Narrowed bool
	// Wider is the same search of all sources.
	Wider    string
	Rows     []hitRow
	Searched searched
}

// Scopes are those that documents are of.
func (searchView) Scopes() []string { return []string{"user", "group", "org"} }

type sourceChoice struct {
	ID, Name string
	Chosen   bool
}

// searchRows is how many hits are on a page, and choiceRows how many sources are there to choose from.
const searchRows, choiceRows = 20, 100

// search is a search, as the address has it.
func (p *pages) search(q *request) error {
	given, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil { // what cannot be read would be left out, and more be searched than was asked for
		return problem.Invalid("address", "cannot be read; search from the form")
	}
	view := searchView{common: q.common("Search", "search"), Q: strings.TrimSpace(given.Get("q")), Scope: given.Get("scope")}
	for _, id := range given["source"] {
		if id != "" && !slices.Contains(view.Chosen, id) {
			view.Chosen = append(view.Chosen, id)
		}
	}
	view.Narrowed = len(view.Chosen) > 0 || view.Scope != ""
	view.Wider = q.zone.to("/search", "q", view.Q)
	if view.Asked = view.Q != ""; view.Asked {
		if err := q.find(&view); err != nil {
			return err
		}
	}
	if err := q.choices(&view); err != nil {
		return err
	}
	q.render(http.StatusOK, "search.html", view)
	return nil
}

// find has the search done.
func (q *request) find(view *searchView) error {
	asked := url.Values{"q": {view.Q}, "page_size": {strconv.Itoa(searchRows)}, "source": view.Chosen}
	if view.Scope != "" {
		asked.Set("scope", view.Scope)
	}
	var found struct {
		Hits     []hit    `json:"hits"`
		Searched searched `json:"searched"`
	}
	if err := q.get("/search", asked, &found); err != nil {
		return err
	}
	now := time.Now()
	view.Searched = found.Searched
	for _, h := range found.Hits {
		r := hitRow{
			ID: h.ConnectorID, Source: plain(h.Connector), Title: plain(h.Title), Path: plain(h.SourceID), Link: weblink(h.URL), Pieces: h.pieces(), CutBefore: h.CutBefore, CutAfter: h.CutAfter,
			Stored: q.zone.in(&h.StoredAt, "UTC", now), Fresh: stateOf(h.Freshness.State), How: h.Freshness.How,
		}
		if r.Title == "" {
			r.Title = r.Path
		}
		if len(h.HeadingPath) > 0 {
			r.Path += " › " + plain(strings.Join(h.HeadingPath, " › "))
		}
		view.Rows = append(view.Rows, r)
	}
	return nil
}

// choices are sources to choose from: the first by number, and those that are chosen.
func (q *request) choices(view *searchView) error {
	var found struct {
		Connectors []connector `json:"connectors"`
	}
	if err := q.get("/connectors", url.Values{"page_size": {strconv.Itoa(choiceRows)}}, &found); err != nil {
		return err
	}
	for _, c := range found.Connectors {
		id := strconv.Itoa(int(c.ID))
		view.Choices = append(view.Choices, sourceChoice{id, plain(c.Name), slices.Contains(view.Chosen, id)})
	}
	for _, id := range view.Chosen {
		if !slices.ContainsFunc(view.Choices, func(c sourceChoice) bool { return c.ID == id }) {
			view.Choices = append(view.Choices, sourceChoice{id, "number " + id, true})
		}
	}
	return nil
}
