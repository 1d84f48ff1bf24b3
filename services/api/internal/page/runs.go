package page

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/services/api/internal/problem"
)

// runRow is a run in a list of all connectors.
type runRow struct {
	run
	State      state
	Name       string
	At, Ended  *moment
	Why        string
	Took       string
	Progress   string
	MayOperate bool
}

type runsView struct {
	common
	Rows        []runRow
	Types       []string
	Type        string
	Status      string
	States      []choice
	Next, First string
	Back        string
	Filtered    bool
}

// names are what connectors are called, by their numbers, as far as they are there and seen.
func (q *request) names(ids []int32) (map[int32]string, error) {
	names := map[int32]string{}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for some := range slices.Chunk(ids, 100) {
		texts := make([]string, len(some))
		for i, id := range some {
			texts[i] = strconv.Itoa(int(id))
		}
		var found struct {
			Glances []glance `json:"glances"`
		}
		if err := q.get("/connectors/glance", url.Values{"ids": {strings.Join(texts, ",")}, "runs": {"0"}}, &found); err != nil {
			return nil, err
		}
		for _, g := range found.Glances {
			names[g.ConnectorID] = g.Name
		}
	}
	return names, nil
}

// why is the reason of a run, with what its worker said.
func (r run) why() string {
	var said []string
	for _, text := range []*string{r.Reason, r.ErrorMessage} {
		if text != nil && *text != "" {
			said = append(said, *text)
		}
	}
	return strings.Join(said, ": ")
}

// runs are the runs of all sources.
func (p *pages) runs(q *request) error {
	asked := q.listed("status", "type")
	var found struct {
		Runs          []run   `json:"runs"`
		NextPageToken *string `json:"next_page_token"`
	}
	if err := q.get("/runs", asked, &found); err != nil {
		return err
	}
	ids := make([]int32, len(found.Runs))
	for i, r := range found.Runs {
		ids[i] = r.ConnectorID
	}
	names, err := q.names(ids)
	if err != nil {
		return err
	}
	types, err := q.types()
	if err != nil {
		return err
	}
	status := asked.Get("status")
	view := runsView{common: q.common("Runs", "runs"), Type: asked.Get("type"), Status: status, Back: q.with("", ""), Filtered: status != "" || asked.Get("type") != ""}
	for _, t := range types {
		view.Types = append(view.Types, t.Name)
	}
	view.States = append(view.States, choice{"All", q.with("status", ""), status == ""})
	for _, verdict := range verdicts {
		view.States = append(view.States, choice{stateOf(verdict).Word, q.with("status", verdict), status == verdict})
	}
	view.Next, view.First = q.around(asked, found.NextPageToken)
	now := time.Now()
	for _, r := range found.Runs {
		one := runRow{run: r, State: stateOf(r.Status), Name: names[r.ConnectorID], At: q.zone.in(&r.DueAt, "UTC", now), Ended: q.zone.in(r.CompletedAt, "UTC", now), Why: r.why(),
			Progress: clock.Progress(r.ProgressDone, r.ProgressTotal, r.ProgressText), MayOperate: r.Status == "running" && q.who.Operates}
		switch {
		case r.MissedCount != nil:
			one.Took = fmt.Sprintf("%d slots", *r.MissedCount)
		case r.CompletedAt != nil:
			one.Took = clock.Span(r.CompletedAt.Sub(r.DueAt))
		default:
			one.Took = clock.Span(now.Sub(r.DueAt)) + " so far"
		}
		view.Rows = append(view.Rows, one)
	}
	q.render(http.StatusOK, "runs.html", view)
	return nil
}

// cancel ends an open run.
func (p *pages) cancel(q *request) error {
	if err := q.ask(http.MethodPost, "/runs/"+url.PathEscape(q.PathValue("run"))+"/cancel", nil, nil, nil); err != nil {
		return err
	}
	q.back("/runs", "cancel")
	return nil
}

// group are runs that failed in the same way.
type group struct {
	Why     string
	Runs    int
	Latest  *moment
	Sources []source
	More    int
	// IDs are all of them.
	IDs []int32
}

type source struct {
	ID   int32
	Name string
}

const (
	// failedRuns is how many failed runs are grouped, the latest.
	failedRuns = 500
	// mostSources is how many sources a group names.
	mostSources = 5
)

// particular is what differs between texts that say the same: addresses, and long numbers.
var particular = regexp.MustCompile(`[a-z]+://[^ ]+|[0-9]{4,}`)

type lock struct {
	Key           string     `json:"key"`
	Epoch         *int64     `json:"epoch"`
	ConnectorID   *int32     `json:"connector_id"`
	ConnectorName *string    `json:"connector_name"`
	AcquiredAt    *time.Time `json:"acquired_at"`
	ExpiresAt     *time.Time `json:"expires_at"`
	Waiting       int32      `json:"waiting"`
	Since, Until  *moment    `json:"-"`
}

// Path is the page of the source whose run has it.
func (l lock) Path() string { return fmt.Sprintf("/sources/%d", *l.ConnectorID) }

type problemsView struct {
	common
	Groups     []group
	Looked     int
	Since      *moment
	Locks      []lock
	MoreLocks  bool
	MayRelease bool
	MaySync    bool
	Errors     string
	Back       string
}

// problems are failed runs by what went wrong, and what keeps runs waiting.
func (p *pages) problems(q *request) error {
	var found struct {
		Runs []run `json:"runs"`
	}
	if err := q.get("/runs", url.Values{"status": {"failed"}, "page_size": {strconv.Itoa(failedRuns)}}, &found); err != nil {
		return err
	}
	now := time.Now()
	view := problemsView{common: q.common("Problems", "problems"), Looked: len(found.Runs), Errors: q.zone.to("/", "status", "ERROR"), Back: q.with("", ""), MayRelease: q.who.Superadmin() && q.who.Administers, MaySync: q.who.Operates}
	groups, err := q.grouped(found.Runs, now)
	if err != nil {
		return err
	}
	view.Groups = groups
	if n := len(found.Runs); n > 0 {
		view.Since = q.zone.in(found.Runs[n-1].CompletedAt, "UTC", now)
	}
	if q.who.Admin() {
		var locks struct {
			Locks []lock  `json:"locks"`
			Next  *string `json:"next_page_token"`
		}
		if err := q.get("/locks", url.Values{"page_size": {"100"}}, &locks); err != nil {
			return err
		}
		for i, l := range locks.Locks {
			locks.Locks[i].Since, locks.Locks[i].Until = q.zone.in(l.AcquiredAt, "UTC", now), q.zone.in(l.ExpiresAt, "UTC", now)
		}
		view.Locks, view.MoreLocks = locks.Locks, locks.Next != nil
	}
	q.render(http.StatusOK, "problems.html", view)
	return nil
}

// grouped puts runs together that failed in the same way, the largest group first.
func (q *request) grouped(runs []run, now time.Time) ([]group, error) {
	var keys []string
	of := map[string][]run{}
	for _, r := range runs {
		key := particular.ReplaceAllString(r.why(), "")
		if of[key] == nil {
			keys = append(keys, key)
		}
		of[key] = append(of[key], r)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return len(of[b]) - len(of[a]) })
	var groups []group
	var named []int32
	for _, key := range keys {
		var ids []int32
		for _, r := range of[key] {
			if !slices.Contains(ids, r.ConnectorID) {
				ids = append(ids, r.ConnectorID)
			}
		}
		g := group{Why: of[key][0].why(), Runs: len(of[key]), Latest: q.zone.in(of[key][0].CompletedAt, "UTC", now), More: max(0, len(ids)-mostSources), IDs: ids}
		for _, id := range ids[:min(len(ids), mostSources)] {
			g.Sources = append(g.Sources, source{ID: id})
			named = append(named, id)
		}
		groups = append(groups, g)
		if len(groups) == 50 {
			break
		}
	}
	names, err := q.names(named)
	for _, g := range groups {
		for i := range g.Sources {
			g.Sources[i].Name = names[g.Sources[i].ID]
		}
	}
	return groups, err
}

// syncFailed asks for a sync of each source of a group. One that may not be synced stays as it is, and keeps no other from it.
func (p *pages) syncFailed(q *request) error {
	if err := q.ParseForm(); err != nil {
		return problem.Invalid("form", "cannot be read")
	}
	ids := q.PostForm["source"]
	if len(ids) == 0 || len(ids) > failedRuns {
		return problem.Invalid("source", fmt.Sprintf("must be 1 to %d numbers", failedRuns))
	}
	// One that somebody holds takes seconds: in one order a few of these would keep all others from each click.
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	said, done := "syncs", 0
	var refused error
	for _, text := range ids {
		id, err := numberOf(text)
		if err != nil {
			return problem.Invalid("source", "must be numbers of sources")
		}
		err = q.ask(http.MethodPost, fmt.Sprintf("/connectors/%d/sync", id), nil, nil, nil)
		switch {
		case err == nil:
			done++
		case slices.Contains([]int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict}, problem.Of(err).Status):
			said, refused = "syncs-some", err
		case done > 0: // what is done is said; those behind it, and it, wait for the next click
			q.back("/problems", "syncs-some")
			return nil
		default:
			return err
		}
	}
	if done == 0 {
		return refused
	}
	q.back("/problems", said)
	return nil
}

// release takes a lock from the run that has it, in the epoch that was shown.
func (p *pages) release(q *request) error {
	if err := q.ParseForm(); err != nil {
		return problem.Invalid("form", "cannot be read")
	}
	body := map[string]any{"key": q.PostForm.Get("key")}
	if epoch, err := strconv.ParseInt(q.PostForm.Get("epoch"), 10, 64); err == nil {
		body["epoch"] = epoch
	}
	if err := q.ask(http.MethodPost, "/locks/release", nil, body, nil); err != nil {
		return err
	}
	q.back("/problems", "release")
	return nil
}
