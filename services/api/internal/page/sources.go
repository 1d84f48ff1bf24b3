package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/services/api/internal/problem"
)

// connector is what the page reads of one.
type connector struct {
	ID                 int32      `json:"id"`
	Name               string     `json:"name"`
	Type               string     `json:"type"`
	UserID             int32      `json:"user_id"`
	Scope              string     `json:"scope"`
	ScopeID            *string    `json:"scope_id"`
	MayChange          bool       `json:"may_change"`
	Config             rawObject  `json:"config"`
	RefreshFreqMinutes *int32     `json:"refresh_freq_minutes"`
	ScheduleCron       *string    `json:"schedule_cron"`
	TimeZone           string     `json:"time_zone"`
	DSTGap             *string    `json:"dst_gap"`
	DSTOverlap         *string    `json:"dst_overlap"`
	SpreadPercent      int32      `json:"spread_percent"`
	DeadlineMinutes    *int32     `json:"deadline_minutes"`
	Overlap            string     `json:"overlap"`
	OncePer            *string    `json:"once_per"`
	CatchUp            string     `json:"catch_up"`
	CatchUpMost        int32      `json:"catch_up_most"`
	CatchUpMinutes     *int32     `json:"catch_up_minutes"`
	Calendar           *string    `json:"calendar"`
	CalendarUse        string     `json:"calendar_use"`
	MaxRetries         int32      `json:"max_retries"`
	Status             string     `json:"status"`
	StatusMessage      *string    `json:"status_message"`
	FailureCount       int32      `json:"failure_count"`
	LastSyncAt         *time.Time `json:"last_sync_at"`
	NextSyncAt         *time.Time `json:"next_sync_at"`
	DueReason          *string    `json:"due_reason"`
	RunID              *string    `json:"run_id"`
	CreatedAt          time.Time  `json:"created_at"`
	CreatedBy          *string    `json:"created_by"`
	UpdatedAt          time.Time  `json:"updated_at"`
	UpdatedBy          *string    `json:"updated_by"`
	Freshness          struct {
		State        string `json:"state"`
		LimitMinutes *int32 `json:"limit_minutes"`
	} `json:"freshness"`
}

// Fresh says whether what is stored of it is as fresh as somebody has said that it must be; null where nobody has.
func (c connector) Fresh() *state {
	if c.Freshness.LimitMinutes == nil {
		return nil
	}
	s := stateOf(c.Freshness.State)
	return &s
}

// Limit is how old it may be.
func (c connector) Limit() string { return "may be " + spanOf(*c.Freshness.LimitMinutes) + " old" }

// spanOf is a number of minutes in the largest unit in which it is a whole number of more than one.
func spanOf(minutes int32) string {
	for _, unit := range []struct {
		minutes int32
		word    string
	}{{1440, "days"}, {60, "hours"}} {
		if minutes%unit.minutes == 0 && minutes > unit.minutes {
			return fmt.Sprintf("%d %s", minutes/unit.minutes, unit.word)
		}
	}
	if minutes == 1 {
		return "1 minute"
	}
	return fmt.Sprintf("%d minutes", minutes)
}

// Schedule is when it runs, in a few words.
func (c connector) Schedule() string {
	switch {
	case c.ScheduleCron != nil:
		return *c.ScheduleCron + " in " + c.TimeZone
	case c.RefreshFreqMinutes == nil:
		return "only when somebody asks"
	case *c.RefreshFreqMinutes == 0:
		return "once"
	case *c.RefreshFreqMinutes == 1:
		return "every minute"
	}
	return "every " + spanOf(*c.RefreshFreqMinutes)
}

// For is who may find its documents.
func (c connector) For() string {
	switch {
	case c.Scope == "user":
		return fmt.Sprintf("user %d", c.UserID)
	case c.Scope == "group" && c.ScopeID != nil:
		return "group " + *c.ScopeID
	case c.Scope == "system":
		return "the system"
	}
	return "everybody"
}

// state is a word of the system with its picture and with what people call it.
type state struct{ Icon, Word string }

var states = map[string]state{
	"ACTIVE": {"active", "Active"}, "PENDING": {"pending", "Waiting"}, "SYNCING": {"syncing", "Syncing"}, "ERROR": {"error", "Error"}, "DISABLED": {"disabled", "Disabled"},
	"running": {"syncing", "Running"}, "completed": {"active", "Completed"}, "skipped": {"skipped", "Skipped"}, "failed": {"error", "Failed"},
	"superseded": {"superseded", "Superseded"}, "missed": {"missed", "Missed"},
	"fresh": {"active", "Fresh"}, "late": {"error", "Late"}, "never": {"missed", "Never synced"}, "unknown": {"pending", "Freshness unknown"},
	"due": {"pending", "Due"}, "runs": {"syncing", "Runs"}, "document stored": {"active", "Stored"}, "document failed": {"error", "Failed"}, "document partial": {"pending", "Stored in part"}, "document deleted": {"disabled", "Deleted"},
}

func stateOf(status string) state {
	if s, known := states[status]; known {
		return s
	}
	return state{"pending", status}
}

type glance struct {
	ConnectorID int32  `json:"connector_id"`
	Name        string `json:"name"`
	Cause       string `json:"cause"`
	Why         string `json:"why"`
	Runs        []run  `json:"runs"`
}

// row is one source in the list.
type row struct {
	connector
	State      state
	Last, Next *moment
	Why        string
	Strip      strip
	MayOperate bool
	Back       string
}

type sourcesView struct {
	common
	Filter   url.Values
	Types    []string
	Rows     []row
	Next     string
	First    string
	Back     string
	Filtered bool
	States   []choice
	// Late is whether those alone are shown that are older than they may be.
	Late choice
	// Sorts are the orders that the list may have.
	Sorts []choice
	// Sort is the order that the address says.
	Sort string
	// Deeds are what may be done to all that match.
	Deeds []pair
}

// Fields are the filter, as forms say it again.
func (v sourcesView) Fields() []pair {
	var all []pair
	for _, name := range filterNames {
		if value := v.Filter.Get(name); value != "" {
			all = append(all, pair{name, value})
		}
	}
	return all
}

// Scopes are those that a list may be of.
func (v sourcesView) Scopes() []string {
	all := []string{"user", "group", "org"}
	if v.Who.Admin() {
		all = append(all, "system")
	}
	return all
}

// pageRows is how many sources are on a page: each costs a look at where it stands, and its latest runs.
const pageRows = 25

var filterNames = []string{"name", "type", "status", "user_id", "scope", "scope_id", "late"}

// sources is the list of sources.
func (p *pages) sources(q *request) error {
	asked, filter := url.Values{"page_size": {strconv.Itoa(pageRows)}}, url.Values{}
	for _, name := range filterNames {
		if value := strings.TrimSpace(q.URL.Query().Get(name)); value != "" {
			asked.Set(name, value)
			filter.Set(name, value)
		}
	}
	sort := q.URL.Query().Get("sort")
	if sort == "" {
		sort = "freshness"
	}
	asked.Set("sort", sort)
	if token := q.URL.Query().Get("page"); token != "" {
		asked.Set("page_token", token)
	}
	var found struct {
		Connectors    []connector `json:"connectors"`
		NextPageToken *string     `json:"next_page_token"`
	}
	if err := q.get("/connectors", asked, &found); err != nil {
		return err
	}
	glances, err := q.glances(found.Connectors)
	if err != nil {
		return err
	}
	types, err := q.types()
	if err != nil {
		return err
	}
	view := sourcesView{common: q.common("Sources", "sources"), Filter: filter, Filtered: len(filter) > 0, Back: q.with("", ""), Deeds: q.who.bulkDeeds()}
	for _, t := range types {
		view.Types = append(view.Types, t.Name)
	}
	if found.NextPageToken != nil {
		view.Next = q.with("page", *found.NextPageToken)
	}
	if q.URL.Query().Get("page") != "" {
		view.First = q.with("page", "")
	}
	view.States = append(view.States, choice{"All", q.with("status", ""), filter.Get("status") == ""})
	for _, status := range []string{"ACTIVE", "PENDING", "SYNCING", "ERROR", "DISABLED"} {
		view.States = append(view.States, choice{stateOf(status).Word, q.with("status", status), filter.Get("status") == status})
	}
	late := filter.Get("late") == "true"
	view.Late = choice{stateOf("late").Word, q.with("late", map[bool]string{false: "true"}[late]), late}
	view.Sort = q.URL.Query().Get("sort")
	view.Sorts = []choice{{"Least fresh first", q.with("sort", ""), sort == "freshness"}, {"By number", q.with("sort", "id"), sort == "id"}}
	now := time.Now()
	for _, c := range found.Connectors {
		g := glances[c.ID]
		view.Rows = append(view.Rows, row{
			connector: c, State: stateOf(c.Status), Last: q.zone.in(c.LastSyncAt, c.TimeZone, now), Next: q.zone.in(c.NextSyncAt, c.TimeZone, now), Why: g.Why,
			Strip: stripOf(g.Runs, func(t *time.Time) *moment { return q.zone.in(t, c.TimeZone, now) }), MayOperate: c.MayChange && q.who.Operates, Back: view.Back,
		})
	}
	q.render(http.StatusOK, "sources.html", view)
	return nil
}

// glances are where connectors stand, by their numbers.
func (q *request) glances(of []connector) (map[int32]glance, error) {
	all := map[int32]glance{}
	if len(of) == 0 {
		return all, nil
	}
	ids := make([]string, len(of))
	for i, c := range of {
		ids[i] = strconv.Itoa(int(c.ID))
	}
	var found struct {
		Glances []glance `json:"glances"`
	}
	err := q.get("/connectors/glance", url.Values{"ids": {strings.Join(ids, ",")}}, &found)
	for _, g := range found.Glances {
		all[g.ConnectorID] = g
	}
	return all, err
}

type connectorType struct {
	Name                  string `json:"name"`
	Kind                  string `json:"kind"`
	DefaultRefreshMinutes *int32 `json:"default_refresh_minutes"`
	MaxConcurrentSyncs    *int32 `json:"max_concurrent_syncs"`
}

// AtOnce is how many of its syncs there may be at once.
func (t connectorType) AtOnce() string {
	switch {
	case t.MaxConcurrentSyncs == nil:
		return "as the scheduler says"
	case *t.MaxConcurrentSyncs == 0:
		return "no bound"
	}
	return fmt.Sprintf("at most %d", *t.MaxConcurrentSyncs)
}

func (q *request) types() ([]connectorType, error) {
	var found struct {
		Types []connectorType `json:"types"`
	}
	err := q.get("/types", nil, &found)
	slices.SortFunc(found.Types, func(a, b connectorType) int { return strings.Compare(a.Name, b.Name) })
	return found.Types, err
}

// actions are what a form may have done to a source.
var actions = []string{"sync", "enable", "disable"}

// said are what pages say of what was done before them.
var said = map[string]string{
	"sync": "A sync was asked for.", "syncs": "A sync was asked for of each of them.", "syncs-some": "A sync was asked for of some. The others are not yours to sync, are disabled, are gone, or could not be asked just now: try those again.", "enable": "The source is enabled.", "disable": "The source is disabled.", "schedule": "The schedule was changed.",
	"cancel": "The run was cancelled.", "revoke": "The token was revoked.", "release": "The lock was taken from its run.",
	"replay": "It is fetched again; the letter is removed.", "drop": "The letter is removed.", "badge": "The link of the badge has ended.", "connected": "It is connected, and everything is fetched again.",
	"added": "The source is added.", "stop": "The operation was cancelled. What it has done stays done.",
	"upload": "The files were uploaded. A sync was asked for.", "delete": "The file was deleted. A sync was asked for.",
	"limit": "The limit was written.", "unlimit": "The limit was deleted.",
	"calendar": "The calendar was written.", "uncalendar": "The calendar was deleted.", "blackout": "The window was written.", "unblackout": "The window was deleted.",
}

// act does something to a source, and shows the page again that it was asked on.
func (p *pages) act(q *request) error {
	action := q.PathValue("action")
	if !slices.Contains(actions, action) {
		return problem.NotFound("action")
	}
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/connectors/%d/%s", id, action)
	if err := q.ask(http.MethodPost, path, nil, nil, nil); err != nil {
		return err
	}
	q.back(fmt.Sprintf("/sources/%d", id), action)
	return nil
}

// back goes to the page that a form was on, which says what was done.
func (q *request) back(otherwise, done string) {
	to := q.PostFormValue("back")
	if to == "" {
		to = otherwise
	}
	u, err := url.Parse(local(to))
	if err != nil {
		u = &url.URL{Path: "/"}
	}
	values := u.Query()
	values.Set("said", done)
	u.RawQuery = values.Encode()
	http.Redirect(q.ResponseWriter, q.Request, u.String(), http.StatusSeeOther)
}

// numberOf is the number of a connector. What is none names nothing.
func numberOf(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, problem.NotFound("such thing")
	}
	return int32(n), nil
}
