package page

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/services/api/internal/problem"
)

// operation is one action on many sources.
type operation struct {
	ID        int32           `json:"id"`
	Action    string          `json:"action"`
	Filter    operationFilter `json:"filter"`
	Letters   *lettersFilter  `json:"letters"`
	UserID    int32           `json:"user_id"`
	State     string          `json:"state"`
	Matched   int32           `json:"matched"`
	LeftOut   int32           `json:"left_out"`
	Done      int32           `json:"done"`
	Changed   int32           `json:"changed"`
	Unchanged int32           `json:"unchanged"`
	Skipped   int32           `json:"skipped"`
	Failed    int32           `json:"failed"`
	Unbegun   int32           `json:"unbegun"`
	CreatedAt time.Time       `json:"created_at"`
	BeganAt   *time.Time      `json:"began_at"`
	EndedAt   *time.Time      `json:"ended_at"`
	Error     *string         `json:"error"`

	Asked, Ended *moment `json:"-"`
}

// operationFilter is which sources it is for, by the names of filters.
type operationFilter struct {
	Name    string `json:"name,omitempty"`
	Type    string `json:"type,omitempty"`
	Status  string `json:"status,omitempty"`
	UserID  int32  `json:"user_id,omitempty"`
	Scope   string `json:"scope,omitempty"`
	ScopeID string `json:"scope_id,omitempty"`
	Late    bool   `json:"late,omitempty"`
}

// filterOf reads the filter of an address or a form.
func filterOf(values url.Values) (f operationFilter, err error) {
	value := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f = operationFilter{Name: value("name"), Type: value("type"), Status: value("status"), Scope: value("scope"), ScopeID: value("scope_id"), Late: value("late") == "true"}
	if owner := value("user_id"); owner != "" {
		if f.UserID, err = numberOf(owner); err != nil {
			return f, problem.Invalid("user_id", "must be the number of a user")
		}
	}
	return f, nil
}

// Fields are what a form says of it again.
func (f operationFilter) Fields() []pair {
	var all []pair
	owner := ""
	if f.UserID > 0 {
		owner = strconv.Itoa(int(f.UserID))
	}
	late := map[bool]string{true: "true"}[f.Late]
	for _, field := range []pair{{"name", f.Name}, {"type", f.Type}, {"status", f.Status}, {"user_id", owner}, {"scope", f.Scope}, {"scope_id", f.ScopeID}, {"late", late}} {
		if field.B != "" {
			all = append(all, field)
		}
	}
	return all
}

// Words are which sources it is for.
func (f operationFilter) Words() string {
	var all []string
	for _, field := range f.Fields() {
		switch field.A {
		case "name":
			all = append(all, fmt.Sprintf("with “%s” in their name", field.B))
		case "type":
			all = append(all, fmt.Sprintf("of type %s", field.B))
		case "status":
			all = append(all, "in the state "+stateOf(f.Status).Word)
		case "user_id":
			all = append(all, fmt.Sprintf("of user %s", field.B))
		case "scope":
			all = append(all, fmt.Sprintf("of scope %s", field.B))
		case "scope_id":
			all = append(all, fmt.Sprintf("of group %s", field.B))
		case "late":
			all = append(all, "that are late")
		}
	}
	if len(all) == 0 {
		return "all sources"
	}
	return "sources " + strings.Join(all, ", ")
}

// deeds are what each action is called.
var deeds = map[string]string{"sync": "Sync now", "enable": "Enable", "disable": "Disable", "delete": "Delete"}

// letterDeeds are what the actions on dead letters are called.
var letterDeeds = map[string]string{"replay": "Fetch again", "drop": "Remove"}

// Deed is what it does.
func (o operation) Deed() string { return deeds[o.Action] + letterDeeds[o.Action] }

// Words are what it does that to.
func (o operation) Words() string {
	if o.Letters == nil {
		return o.Filter.Words()
	}
	return o.Letters.words()
}

// Things are what it counts.
func (o operation) Things() string {
	if o.Letters == nil {
		return "sources"
	}
	return "dead letters"
}

// lettersFilter is which dead letters an operation is for.
type lettersFilter struct {
	Reason      *string `json:"reason"`
	Subject     string  `json:"subject"`
	ConnectorID int32   `json:"connector_id"`
}

func (f lettersFilter) words() string {
	var all []string
	if f.Reason != nil {
		all = append(all, fmt.Sprintf("given up because of “%s”", *f.Reason))
	}
	if f.Subject != "" && f.Subject != ">" {
		all = append(all, "of "+f.Subject)
	}
	if f.ConnectorID != 0 {
		all = append(all, fmt.Sprintf("of source number %d", f.ConnectorID))
	}
	if len(all) == 0 {
		return "all dead letters"
	}
	return "dead letters " + strings.Join(all, ", ")
}

// IsOpen says whether it goes on.
func (o operation) IsOpen() bool { return o.EndedAt == nil }

// Standing is its state with its picture.
func (o operation) Standing() state {
	return map[string]state{
		"waiting": {"pending", "Waiting"}, "running": {"syncing", "Running"}, "completed": {"active", "Completed"}, "cancelled": {"disabled", "Cancelled"}, "failed": {"error", "Failed"},
	}[o.State]
}

// Cut says whether there are more results than are kept.
func (o operation) Cut() bool { return o.Skipped+o.Failed > 10_000 }

// bulkDeeds are what whom the page serves may do to many: the actions, in order.
func (w Who) bulkDeeds() []pair {
	var all []pair
	if w.Operates {
		all = append(all, pair{"sync", "Sync now"}, pair{"enable", "Enable"}, pair{"disable", "Disable"})
	}
	if w.Writes {
		all = append(all, pair{"delete", "Delete"})
	}
	return all
}

type previewView struct {
	common
	Action, Deed string
	Filter       operationFilter
	Found        struct {
		Matched  int32 `json:"matched"`
		LeftOut  int32 `json:"left_out"`
		AtLeast  bool  `json:"at_least"`
		Examples []struct {
			ID   int32  `json:"id"`
			Name string `json:"name"`
		} `json:"examples"`
		Confirm *string `json:"confirm"`
	}
	Once, Back string
}

// Others is how many match that are not named.
func (v previewView) Others() int { return int(v.Found.Matched) - len(v.Found.Examples) }

// asked is what an address or a form wants done, and to which.
func asked(values url.Values) (map[string]any, operationFilter, error) {
	action := values.Get("action")
	if deeds[action] == "" {
		return nil, operationFilter{}, problem.Invalid("action", "must be sync, enable, disable or delete")
	}
	filter, err := filterOf(values)
	return map[string]any{"action": action, "filter": filter}, filter, err
}

// previewOperation shows what would be done, and has it confirmed.
func (p *pages) previewOperation(q *request) error {
	values := q.URL.Query()
	body, filter, err := asked(values)
	if err != nil {
		return err
	}
	view := previewView{Action: values.Get("action"), Deed: deeds[values.Get("action")], Filter: filter, Once: rand.Text()}
	if err := q.ask(http.MethodPost, "/operations/preview", nil, body, &view.Found); err != nil {
		return err
	}
	back := make([]string, 0, 14)
	for _, field := range filter.Fields() {
		back = append(back, fmt.Sprint(field.A), fmt.Sprint(field.B))
	}
	view.common, view.Back = q.common(view.Deed+": all that match", "sources"), q.zone.to("/", back...)
	q.render(http.StatusOK, "preview.html", view)
	return nil
}

// createOperation begins what was confirmed.
func (p *pages) createOperation(q *request) error {
	if err := q.ParseForm(); err != nil {
		return problem.Invalid("form", "cannot be read")
	}
	body, _, err := asked(q.PostForm)
	if err != nil {
		return err
	}
	body["confirm"] = q.PostForm.Get("confirm")
	var made operation
	if _, err := q.service.Ask(q.Context(), Operation{Method: http.MethodPost, Path: "/operations", Body: body, Key: q.PostForm.Get("once")}, &made); err != nil {
		return err
	}
	http.Redirect(q.ResponseWriter, q.Request, q.zone.to(fmt.Sprintf("/operations/%d", made.ID)), http.StatusSeeOther)
	return nil
}

type operationView struct {
	common
	Operation operation
	Results   []struct {
		ConnectorID int32   `json:"connector_id"`
		Name        *string `json:"name"`
		Result      string  `json:"result"`
		Reason      string  `json:"reason"`
	}
	Next, First, Back string
	MayCancel         bool
}

// operationRefresh is in how many seconds a browser shows an operation anew that goes on.
const operationRefresh = "3"

// operation is one of them, and what came of those that it did not change.
func (p *pages) operation(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	view := operationView{MayCancel: q.who.Operates || q.who.Writes}
	path := fmt.Sprintf("/operations/%d", id)
	if err := q.get(path, nil, &view.Operation); err != nil {
		return err
	}
	var found struct {
		Results any     `json:"results"`
		Next    *string `json:"next_page_token"`
	}
	found.Results = &view.Results
	listed := q.listed()
	if err := q.get(path+"/results", listed, &found); err != nil {
		return err
	}
	o, now := &view.Operation, time.Now()
	o.Asked, o.Ended = q.zone.in(&o.CreatedAt, "UTC", now), q.zone.in(o.EndedAt, "UTC", now)
	view.common, view.Back = q.common(fmt.Sprintf("Operation %d", id), "sources"), q.zone.to(path)
	view.Next, view.First = q.around(listed, found.Next)
	if o.IsOpen() {
		q.ResponseWriter.Header().Set("Refresh", operationRefresh)
	}
	q.render(http.StatusOK, "operation.html", view)
	return nil
}

type operationsView struct {
	common
	Operations  []operation
	Next, First string
}

// operations are those of whom the page serves, the latest first.
func (p *pages) operations(q *request) error {
	var found struct {
		Operations []operation `json:"operations"`
		Next       *string     `json:"next_page_token"`
	}
	listed := q.listed()
	if err := q.get("/operations", listed, &found); err != nil {
		return err
	}
	view, now := operationsView{common: q.common("Operations", "sources"), Operations: found.Operations}, time.Now()
	for i := range view.Operations {
		o := &view.Operations[i]
		o.Asked, o.Ended = q.zone.in(&o.CreatedAt, "UTC", now), q.zone.in(o.EndedAt, "UTC", now)
	}
	view.Next, view.First = q.around(listed, found.Next)
	q.render(http.StatusOK, "operations.html", view)
	return nil
}

// cancelOperation ends an operation.
func (p *pages) cancelOperation(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/operations/%d", id)
	if err := q.ask(http.MethodPost, path+"/cancel", nil, nil, nil); err != nil {
		return err
	}
	q.back(path, "stop")
	return nil
}
