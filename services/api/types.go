package api

import (
	"context"
	"net/http"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// maxTypes is how many types are listed.
const maxTypes = 1000

func (a *API) typeRoutes() {
	register(a, identity.ListTypes, http.MethodGet, "/types", "List the types of connectors", http.StatusOK, a.listTypes)
	register(a, identity.PutType, http.MethodPut, "/types/{name}", "Add a type of connectors, or replace what is said of one", http.StatusOK, a.putType)
	a.mayBeNew("/types/{name}")
}

// TypeList are the types.
type TypeList struct {
	Body struct {
		Types []Type `json:"types"`
	}
}

// Type is a type of connectors; null = the scheduler's default.
type Type struct {
	Name                  string   `json:"name"`
	Version               string   `json:"version" doc:"Another after each change: in quotation marks If-Match of one."`
	Kind                  string   `json:"kind" enum:"source,job" doc:"The runs of a source store documents, those of a job have a result."`
	System                bool     `json:"system" doc:"Whether its one connector is a job of the system."`
	DefaultRefreshMinutes *int32   `json:"default_refresh_minutes"`
	MaxConcurrentSyncs    *int32   `json:"max_concurrent_syncs"`
	ConcurrencyKeys       []string `json:"concurrency_keys" nullable:"true" doc:"Those that every connector of the type has; null = none."`
	Provider              *string  `json:"provider" doc:"Whose service its connectors ask, which blackout windows name; null = nobody has said."`
}

func viewType(t dbgen.ConnectorType, version string) Type {
	return Type{t.Name, version, t.Kind, t.System, t.DefaultRefreshMinutes, t.MaxConcurrentSyncs, t.ConcurrencyKeys, t.Provider}
}

func (t Type) etag() string { return `"` + t.Version + `"` }

func (a *API) listTypes(ctx context.Context, _ *Nothing) (*TypeList, error) {
	out := &TypeList{}
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.ListTypes(ctx, maxTypes)
		out.Body.Types = make([]Type, len(found))
		for i, t := range found {
			out.Body.Types[i] = viewType(t.ConnectorType, t.Version)
		}
		return err
	})
	return out, err
}

// PutType is what a type is to be.
type PutType struct {
	Name string `path:"name" maxLength:"63" pattern:"^[a-z][a-z0-9_]*$" doc:"Part of the subject that its syncs are published to."`
	Putting
	Body struct {
		Kind                  string   `json:"kind" enum:"source,job" doc:"It stays what it is."`
		System                bool     `json:"system,omitempty" doc:"Whether its one connector is a job of the system. It stays what it is."`
		DefaultRefreshMinutes *int32   `json:"default_refresh_minutes,omitempty" nullable:"true" minimum:"0" doc:"Of a new connector for which nobody chose; 0 = once, null = the scheduler's default."`
		MaxConcurrentSyncs    *int32   `json:"max_concurrent_syncs,omitempty" nullable:"true" minimum:"0" doc:"How many may be in flight at once; 0 = no cap, null = the scheduler's default."`
		ConcurrencyKeys       []string `json:"concurrency_keys,omitempty" nullable:"true" maxItems:"4" doc:"Null = none."`
		Provider              *string  `json:"provider,omitempty" nullable:"true" maxLength:"63"`
	}
}

// OneType is a type, with its version.
type OneType struct {
	Status int
	ETag   string `header:"ETag" doc:"Its version: If-Match of a change."`
	Body   Type
}

func (a *API) putType(ctx context.Context, in *PutType) (*OneType, error) {
	b, out := in.Body, &OneType{}
	if len(b.ConcurrencyKeys) == 0 {
		b.ConcurrencyKeys = nil
	}
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := optional(q.LockType(ctx, in.Name))
		if err != nil {
			return err
		}
		if stands == nil {
			if err := in.puts(nil); err != nil {
				return err
			}
			n, err := q.AddType(ctx, dbgen.AddTypeParams{Name: in.Name, Kind: b.Kind, System: b.System, DefaultRefreshMinutes: b.DefaultRefreshMinutes,
				MaxConcurrentSyncs: b.MaxConcurrentSyncs, ConcurrencyKeys: b.ConcurrencyKeys, Provider: b.Provider})
			if err == nil && n == 0 {
				err = in.meanwhile()
			}
			if err != nil {
				return err
			}
		} else {
			seen, err := q.TypeOf(ctx, in.Name)
			if err != nil {
				return err
			}
			if err := in.puts(new(viewType(seen.ConnectorType, seen.Version).etag())); err != nil {
				return err
			}
			switch {
			case stands.Kind != b.Kind:
				return problem.Invalid("body.kind", "must be "+stands.Kind+", which it stays; add a type of another name")
			case stands.System != b.System:
				return problem.Invalid("body.system", "must stay as it is; add a type of another name")
			}
			_, err = q.ChangeType(ctx, dbgen.ChangeTypeParams{Name: in.Name, DefaultRefreshMinutes: b.DefaultRefreshMinutes, MaxConcurrentSyncs: b.MaxConcurrentSyncs,
				ConcurrencyKeys: b.ConcurrencyKeys, Provider: b.Provider})
			if err != nil {
				return err
			}
		}
		written, err := q.TypeOf(ctx, in.Name)
		out.Body = viewType(written.ConnectorType, written.Version)
		out.Status, out.ETag = putStatus(stands == nil), out.Body.etag()
		return err
	})
	return out, err
}
