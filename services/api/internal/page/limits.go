package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/echomind/sync/services/api/internal/problem"
)

// limit is what an owner may have; null = not said.
type limit struct {
	UserID             int32  `json:"user_id"`
	MaxConnectors      *int64 `json:"max_connectors"`
	MaxConcurrentSyncs *int64 `json:"max_concurrent_syncs"`
	MaxDocuments       *int64 `json:"max_documents"`
	MaxBytes           *int64 `json:"max_bytes"`
}

// limitFields are what limits are of, in the order of the table.
var limitFields = []pair{{"max_connectors", "Sources"}, {"max_concurrent_syncs", "Syncs at once"}, {"max_documents", "Documents"}, {"max_bytes", "Bytes"}}

// LimitNames are the same as people call them.
func (limits) LimitNames() (names []string) {
	for _, f := range limitFields {
		names = append(names, f.B.(string))
	}
	return names
}

func (l limit) numbers() []*int64 {
	return []*int64{l.MaxConnectors, l.MaxConcurrentSyncs, l.MaxDocuments, l.MaxBytes}
}

// Cells are what an owner may have.
func (l limit) Cells() (cells []string) {
	for _, n := range l.numbers() {
		switch {
		case n == nil:
			cells = append(cells, "not said")
		case *n == 0:
			cells = append(cells, "no bound")
		default:
			cells = append(cells, strconv.FormatInt(*n, 10))
		}
	}
	return cells
}

// keyLimit is how many runs of a concurrency key may be in flight.
type keyLimit struct {
	Key     string `json:"key"`
	Most    int32  `json:"most"`
	Held    int32  `json:"held"`
	Waiting int32  `json:"waiting"`
}

// limits are those of owners and of keys, as far as whom a page is for sees them.
type limits struct {
	Limits                  []limit
	LimitsNext, LimitsFirst string
	Keys                    []keyLimit
	KeysNext, KeysFirst     string
	// MayLimit says whether forms are shown: empty ones, or those of what the address names.
	MayLimit    bool
	Owner       *limit
	OwnerTag    string
	OwnerFields []limitField
	Key         *keyLimit
	KeyTag      string
}

// limitField is one of a form.
type limitField struct{ Name, Label, Value string }

// limits asks for them.
func (q *request) limits() (all limits, err error) {
	var owners struct {
		Limits []limit `json:"limits"`
		Next   *string `json:"next_page_token"`
	}
	var keys struct {
		Limits []keyLimit `json:"limits"`
		Next   *string    `json:"next_page_token"`
	}
	ownersAsked, keysAsked := q.placed("limits"), q.placed("keys")
	if err := q.get("/limits", ownersAsked, &owners); err != nil {
		return all, err
	}
	if q.who.Admin() {
		if err := q.get("/limits/keys", keysAsked, &keys); err != nil {
			return all, err
		}
	}
	all = limits{Limits: owners.Limits, Keys: keys.Limits, MayLimit: q.who.Superadmin() && q.who.Administers}
	all.LimitsNext, all.LimitsFirst = q.aroundOf("limits", ownersAsked, owners.Next)
	all.KeysNext, all.KeysFirst = q.aroundOf("keys", keysAsked, keys.Next)
	if owner := q.URL.Query().Get("owner"); all.MayLimit && owner != "" {
		if all.OwnerTag, err = q.versioned("/limits/"+url.PathEscape(owner), &all.Owner); err != nil {
			return all, err
		}
	}
	if key := q.URL.Query().Get("key"); all.MayLimit && key != "" {
		if all.KeyTag, err = q.versioned("/limits/keys/"+url.PathEscape(key), &all.Key); err != nil {
			return all, err
		}
	}
	var owner limit
	if all.Owner != nil {
		owner = *all.Owner
	}
	for i, n := range owner.numbers() {
		field := limitField{Name: limitFields[i].A.(string), Label: limitFields[i].B.(string)}
		if n != nil {
			field.Value = strconv.FormatInt(*n, 10)
		}
		all.OwnerFields = append(all.OwnerFields, field)
	}
	return all, nil
}

// versioned asks for what a form changes, and says its version.
func (q *request) versioned(path string, into any) (tag string, err error) {
	header, err := q.service.Ask(q.Context(), Operation{Method: http.MethodGet, Path: path}, into)
	return header.Get("ETag"), err
}

// ofOwner is the path of the limit that a form is about.
func (q *request) ofOwner() (string, error) {
	user, err := strconv.ParseInt(strings.TrimSpace(q.PostFormValue("user_id")), 10, 32)
	if err != nil || user < 0 {
		return "", problem.Invalid("user_id", "must be the number of a user, or 0 for everybody else")
	}
	return fmt.Sprintf("/limits/%d", user), nil
}

func (q *request) ofKey() string {
	return "/limits/keys/" + url.PathEscape(strings.TrimSpace(q.PostFormValue("key")))
}

// write has a limit written or deleted, of the version that the form has shown.
func (q *request) write(method, path string, body any, said string) error {
	asked := Operation{Method: method, Path: path, Body: body, IfMatch: q.PostFormValue("version"), Note: q.PostFormValue("note")}
	if _, err := q.service.Ask(q.Context(), asked, nil); err != nil {
		return err
	}
	q.back("/administration", said)
	return nil
}

func (p *pages) putLimit(q *request) error {
	path, err := q.ofOwner()
	if err != nil {
		return err
	}
	body := map[string]any{}
	for _, f := range limitFields {
		name := f.A.(string)
		text := strings.TrimSpace(q.PostFormValue(name))
		if text == "" {
			continue
		}
		if body[name], err = strconv.ParseInt(text, 10, 64); err != nil {
			return problem.Invalid(name, "must be a number, or empty")
		}
	}
	return q.write(http.MethodPut, path, body, "limit")
}

func (p *pages) deleteLimit(q *request) error {
	path, err := q.ofOwner()
	if err != nil {
		return err
	}
	return q.write(http.MethodDelete, path, nil, "unlimit")
}

func (p *pages) putKeyLimit(q *request) error {
	most, err := strconv.ParseInt(strings.TrimSpace(q.PostFormValue("most")), 10, 32)
	if err != nil {
		return problem.Invalid("most", "must be a number from 0 to 10000")
	}
	return q.write(http.MethodPut, q.ofKey(), map[string]any{"most": most}, "limit")
}

func (p *pages) deleteKeyLimit(q *request) error {
	return q.write(http.MethodDelete, q.ofKey(), nil, "unlimit")
}
