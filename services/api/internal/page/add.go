package page

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/services/api/internal/problem"
)

// kind is how a source of a type is added: with the fields of its configuration that people fill in, and those that it has anyway.
type kind struct {
	Name, Type, Title, Words string
	Fields                   []field
	Config                   map[string]any
}

// kinds are those that services of this system read. Of another type a configuration is given as JSON.
var kinds = []kind{
	{"web", "web", "Web site", "Its pages are read from a first one on, by their links.", []field{
		{Name: "url", Label: "First page", Hint: "https://docs.example.org/", IsText: true},
	}, nil},
	{"upload", "file", "Uploads", "Files that are uploaded to it, on its page.", nil, map[string]any{"url": "upload:"}},
	{"file", "file", "Folder", "A folder of the machine, or of the volume, that the chunker reads. The operator says which folders may be read.", []field{
		{Name: "url", Label: "Folder", Hint: "file:///srv/docs", IsText: true},
	}, nil},
	{"google_drive", "google_drive", "Google Drive", "Who gives the account that it reads is asked on the next page.", []field{
		{Name: "folder_id", Label: "Folder", Hint: "Its id, as its address has it; empty: all of My Drive", IsText: true},
		{Name: "drive_id", Label: "Shared drive", Hint: "Its id; empty: none", IsText: true},
	}, nil},
	{"onedrive", "onedrive", "OneDrive, SharePoint", "Who gives the account that it reads is asked on the next page.", []field{
		{Name: "tenant_id", Label: "Directory", Hint: "Its id or domain: contoso.example; empty: any", IsText: true},
		{Name: "site", Label: "Site", Hint: "contoso.sharepoint.com:/sites/Marketing; empty: the drive of who consents", IsText: true},
		{Name: "folder", Label: "Folder", Hint: "Its path; empty: the whole drive", IsText: true},
	}, nil},
	{"teams", "teams", "Teams channel", "Who gives the account that it reads is asked on the next page.", []field{
		{Name: "tenant_id", Label: "Directory", Hint: "Its id or domain: contoso.example; empty: any", IsText: true},
		{Name: "team_id", Label: "Team", Hint: "Its id", IsText: true},
		{Name: "channel_id", Label: "Channel", Hint: "Its id: 19:…@thread.tacv2", IsText: true},
	}, nil},
}

type addView struct {
	common
	Kinds   []kind
	Chosen  kind
	Fields  []field
	Scopes  []string
	Scope   string
	Once    string
	Problem *problem.Problem
	// IsMarked: what is wrong stands beside its field.
	IsMarked bool
}

// add is the form of a source that is to be added.
func (p *pages) add(q *request) error {
	view, err := q.adding(q.URL.Query())
	if err != nil {
		return err
	}
	q.render(http.StatusOK, "add.html", view)
	return nil
}

// adding is the form with what somebody has filled in.
func (q *request) adding(form url.Values) (view addView, err error) {
	types, err := q.types()
	if err != nil {
		return view, err
	}
	view = addView{common: q.common("Add a source", "sources"), Scopes: []string{"user"}, Scope: form.Get("scope"), Once: form.Get("once")}
	if view.Kinds = kindsOf(types); len(view.Kinds) == 0 {
		return view, problem.Conflict("There is no type of sources.", "Ask an operator to add one: `echomind types add`.")
	}
	view.Chosen = view.Kinds[0]
	if asked := form.Get("kind"); asked != "" {
		i := slices.IndexFunc(view.Kinds, func(k kind) bool { return k.Name == asked })
		if i < 0 {
			return view, problem.NotFound("type of sources")
		}
		view.Chosen = view.Kinds[i]
	}
	if q.who.Admin() {
		view.Scopes = append(view.Scopes, "group")
	}
	if q.who.Superadmin() {
		view.Scopes = append(view.Scopes, "org")
	}
	if view.Once == "" {
		view.Once = rand.Text()
	}
	group := []field{}
	if q.who.Admin() {
		group = []field{{Name: "scope_id", Label: "Group", Hint: "Where a group finds it: its id", IsText: true}}
	}
	view.Fields = slices.Concat([]field{{Name: "name", Label: "Name", Hint: "What people call it", IsText: true}}, view.Chosen.Fields, []field{
		{Name: "more", Label: "Other settings", Hint: `The rest of its configuration, as JSON: {"max_file_bytes": 1048576}`, IsText: true},
		{Name: "refresh_freq_minutes", Label: "Interval", Hint: "Minutes from one sync to the next; 0: once; empty: as the type says"},
	}, group)
	for i, f := range view.Fields {
		view.Fields[i].Value = strings.TrimSpace(form.Get(f.Name))
	}
	return view, nil
}

// kindsOf are those of some types: first those that are known, then each other type by its name.
func kindsOf(types []connectorType) (all []kind) {
	isThere := map[string]bool{}
	for _, t := range types {
		isThere[t.Name] = t.Kind == "source"
	}
	for _, k := range kinds {
		if isThere[k.Type] {
			all = append(all, k)
		}
	}
	for _, t := range types {
		if t.Kind == "source" && !slices.ContainsFunc(kinds, func(k kind) bool { return k.Type == t.Name }) {
			all = append(all, kind{Name: t.Name, Type: t.Name, Title: t.Name})
		}
	}
	return all
}

// body is the source as the API takes it. Its error names the field.
func (v addView) body() (map[string]any, error) {
	values := map[string]string{}
	for _, f := range v.Fields {
		values[f.Name] = f.Value
	}
	config := map[string]any{}
	if values["more"] != "" {
		value, err := masks.Decode([]byte(values["more"])) // numbers stay as they are written
		object, is := value.(map[string]any)
		if err != nil || !is || !json.Valid([]byte(values["more"])) {
			return nil, problem.Invalid("more", `must be a JSON object, such as {"max_file_bytes": 1048576}`)
		}
		config = object
	}
	said := maps.Clone(v.Chosen.Config)
	if said == nil {
		said = map[string]any{}
	}
	for _, f := range v.Chosen.Fields {
		if values[f.Name] != "" {
			said[f.Name] = values[f.Name]
		}
	}
	for name, value := range said {
		if _, twice := config[name]; twice {
			return nil, problem.Invalid("more", name+" is said already: leave it out here")
		}
		config[name] = value
	}
	body := map[string]any{"name": values["name"], "type": v.Chosen.Type, "config": config}
	if v.Scope != "" {
		body["scope"] = v.Scope
	}
	if values["scope_id"] != "" {
		body["scope_id"] = values["scope_id"]
	}
	if text := values["refresh_freq_minutes"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, problem.Invalid("refresh_freq_minutes", "must be a whole number")
		}
		body["refresh_freq_minutes"] = n
	}
	return body, nil
}

// create adds a source. A form that is sent again adds no second one.
func (p *pages) create(q *request) error {
	if err := q.ParseForm(); err != nil {
		return problem.Invalid("form", "cannot be read")
	}
	view, err := q.adding(q.PostForm)
	if err != nil {
		return err
	}
	var made struct {
		ID int32 `json:"id"`
	}
	body, err := view.body()
	if err == nil {
		_, err = q.service.Ask(q.Context(), Operation{Method: http.MethodPost, Path: "/connectors", Body: body, Key: view.Once}, &made)
	}
	if err == nil {
		http.Redirect(q.ResponseWriter, q.Request, fmt.Sprintf("/sources/%d?said=added", made.ID), http.StatusSeeOther)
		return nil
	}
	found := problem.Of(err)
	if found.Status != http.StatusUnprocessableEntity && found.Status != http.StatusConflict && found.Status != http.StatusForbidden {
		return err
	}
	view.Problem, view.Once = found, rand.Text() // what is corrected is another request
	marked := 0
	for i, f := range view.Fields {
		for _, wrong := range found.Errors {
			if wrong.Field == f.Name || strings.HasSuffix(wrong.Field, "."+f.Name) {
				view.Fields[i].Problem = wrong.Detail
				marked++
			}
		}
	}
	view.IsMarked = marked > 0 && marked == len(found.Errors)
	q.render(found.Status, "add.html", view)
	return nil
}
