package api

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/echomind/sync/services/api/internal/problem"
)

// Named names one calendar, blackout window or condition.
type Named struct {
	Name string `path:"name" maxLength:"63" pattern:"^[a-z][a-z0-9_-]*$"`
}

// NamedVersion is Named of a change of what is there.
type NamedVersion struct {
	Named
	Matching
}

// Matching says which version a change is of.
type Matching struct {
	IfMatch string `header:"If-Match" maxLength:"100" doc:"The ETag of what is changed, or *."`
}

// matches is of the ETag of what is there.
func (m Matching) matches(stands string) error {
	switch m.IfMatch {
	case "":
		return problem.PreconditionRequired()
	case "*", stands:
		return nil
	}
	return problem.PreconditionFailed()
}

// Putting is Matching of a change, or of something new.
type Putting struct {
	Matching
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: only where there is none of this name."`
}

// puts is of the ETag of what is there; nil: nothing is.
func (p Putting) puts(stands *string) error {
	switch {
	case stands == nil && p.IfMatch != "":
		return problem.Gone()
	case stands == nil:
		return nil
	case p.IfNoneMatch != "":
		return problem.Exists()
	}
	return p.matches(*stands)
}

// meanwhile is of something new that somebody else has added at the same time.
func (p Putting) meanwhile() error {
	if p.IfNoneMatch != "" {
		return problem.Exists()
	}
	return problem.PreconditionRequired()
}

// PutNamed is Named of a change, or of something new.
type PutNamed struct {
	Named
	Putting
}

// version is the ETag of something with a name.
func version(of int64) string { return `"` + strconv.FormatInt(of, 10) + `"` }

// check is of what is there.
func (c NamedVersion) check(stands int64) error { return c.matches(version(stands)) }

// check is of what is there; nil: nothing is.
func (p PutNamed) check(stands *int64) error {
	if stands == nil {
		return p.puts(nil)
	}
	return p.puts(new(version(*stands)))
}

// mayBeMissing says in the document that there may be none of a name.
func mayBeMissing(of *huma.Operation) { of.Errors = append(of.Errors, http.StatusNotFound) }

// mayBeNew says in the document that a PUT answers with the same body, and 201, where it has added something.
func (a *API) mayBeNew(path string) {
	answers := a.huma.OpenAPI().Paths[base+path].Put.Responses
	added := *answers["200"]
	added.Description = "Created"
	answers["201"] = &added
}

// putStatus is the status of the answer to a PUT.
func putStatus(isNew bool) int {
	if isNew {
		return http.StatusCreated
	}
	return http.StatusOK
}
