package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) limitRoutes() {
	const owner, key = "/limits/{user_id}", "/limits/keys/{key}"
	register(a, identity.ListLimits, http.MethodGet, "/limits", "List what owners may have: you, and everybody without limits of their own (user 0)", http.StatusOK, a.listLimits)
	register(a, identity.GetLimit, http.MethodGet, owner, "Show what an owner may have", http.StatusOK, a.getLimit, mayBeMissing)
	register(a, identity.PutLimit, http.MethodPut, owner, "Say what an owner may have, or everybody without limits of their own (user 0)", http.StatusOK, a.putLimit)
	a.mayBeNew(owner)
	register(a, identity.DeleteLimit, http.MethodDelete, owner, "Delete what is said of an owner: they may have what everybody may", http.StatusNoContent, a.deleteLimit, mayBeMissing)
	register(a, identity.ListKeyLimits, http.MethodGet, "/limits/keys", "List how many runs of a concurrency key may be in flight, by key", http.StatusOK, a.listKeyLimits)
	register(a, identity.GetKeyLimit, http.MethodGet, key, "Show how many runs of a concurrency key may be in flight", http.StatusOK, a.getKeyLimit, mayBeMissing)
	register(a, identity.PutKeyLimit, http.MethodPut, key, "Say how many runs of a concurrency key may be in flight", http.StatusOK, a.putKeyLimit)
	a.mayBeNew(key)
	register(a, identity.DeleteKeyLimit, http.MethodDelete, key, "Delete the limit of a concurrency key: it bounds nothing any more", http.StatusNoContent, a.deleteKeyLimit, mayBeMissing)
}

// Limit is what an owner may have. 0 = no bound, null = as user 0 says, of max_concurrent_syncs as the service does.
type Limit struct {
	UserID             int32  `json:"user_id"`
	MaxConnectors      *int32 `json:"max_connectors"`
	MaxConcurrentSyncs *int32 `json:"max_concurrent_syncs" doc:"Of a capped type at once."`
	MaxDocuments       *int64 `json:"max_documents"`
	MaxBytes           *int64 `json:"max_bytes" doc:"Of texts, titles, addresses and links."`
}

// etag is of its numbers: nothing else is written of it.
func (l Limit) etag() string {
	text, err := json.Marshal([]any{l.MaxConnectors, l.MaxConcurrentSyncs, l.MaxDocuments, l.MaxBytes})
	if err != nil {
		panic(err) // numbers
	}
	return `"` + strings.ReplaceAll(strings.Trim(string(text), "[]"), ",", ".") + `"`
}

// LimitPage is one page of limits.
type LimitPage struct {
	Body struct {
		Limits        []Limit `json:"limits"`
		NextPageToken *string `json:"next_page_token"`
	}
}

func (a *API) listLimits(ctx context.Context, in *Paging) (*LimitPage, error) {
	p, out := dbgen.ListLimitsParams{After: -1, Page: in.most() + 1}, &LimitPage{}
	if who := requestOf(ctx); !who.Role.AtLeast(identity.Superadmin) {
		p.Users = []int32{0, who.UserID} // so that nobody else's are read
	}
	next, err := a.place(ctx, in.PageToken, "limits", &p.After)
	if err != nil {
		return nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.ListLimits(ctx, p)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Limits = make([]Limit, len(found))
		for i, l := range found {
			out.Body.Limits[i] = Limit(l)
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].UserID)
		}
		return nil
	})
	return out, err
}

// ByOwner names whose limits: 0 is everybody without limits of their own.
type ByOwner struct {
	UserID int64 `path:"user_id" minimum:"0" maximum:"2147483647" format:"int32"`
}

func (b ByOwner) number() int32 { return int32(b.UserID) }

func (b ByOwner) missing() error { return problem.NotFound(fmt.Sprintf("limit of user %d", b.UserID)) }

// OneLimit is what an owner may have, with its version.
type OneLimit struct {
	Status int
	ETag   string `header:"ETag" doc:"Its version: If-Match of a change."`
	Body   Limit
}

func (a *API) getLimit(ctx context.Context, in *ByOwner) (out *OneLimit, err error) {
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		out, err = shownLimit(ctx, q, *in, http.StatusOK)
		return err
	})
	return out, err
}

func shownLimit(ctx context.Context, q *dbgen.Queries, of ByOwner, status int) (*OneLimit, error) {
	found, err := optional(q.GetLimit(ctx, of.number()))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, of.missing()
	}
	l := Limit(*found)
	return &OneLimit{status, l.etag(), l}, nil
}

// PutLimit is what an owner is to have.
type PutLimit struct {
	ByOwner
	Putting
	Body struct {
		MaxConnectors      *int32 `json:"max_connectors,omitempty" nullable:"true" minimum:"0" doc:"0 = no bound, null = as user 0 says."`
		MaxConcurrentSyncs *int32 `json:"max_concurrent_syncs,omitempty" nullable:"true" minimum:"0" doc:"Of a capped type at once. 0 = all places of the type, null = the service's share. Not of user 0."`
		MaxDocuments       *int64 `json:"max_documents,omitempty" nullable:"true" minimum:"0" maximum:"9007199254740991" doc:"0 = no bound, null = as user 0 says."`
		MaxBytes           *int64 `json:"max_bytes,omitempty" nullable:"true" minimum:"0" maximum:"9007199254740991" doc:"Of texts, titles, addresses and links. 0 = no bound, null = as user 0 says."`
	}
}

func (a *API) putLimit(ctx context.Context, in *PutLimit) (out *OneLimit, err error) {
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := optional(q.LockLimit(ctx, in.number()))
		if err != nil {
			return err
		}
		b := in.Body
		if stands == nil {
			if err := in.puts(nil); err != nil {
				return err
			}
			n, err := q.AddLimit(ctx, dbgen.AddLimitParams{UserID: in.number(), MaxConnectors: b.MaxConnectors, MaxConcurrentSyncs: b.MaxConcurrentSyncs, MaxDocuments: b.MaxDocuments, MaxBytes: b.MaxBytes})
			if err == nil && n == 0 {
				err = in.meanwhile()
			}
			if err != nil {
				return err
			}
		} else {
			if err := in.puts(new(Limit(*stands).etag())); err != nil {
				return err
			}
			_, err := q.ChangeLimit(ctx, dbgen.ChangeLimitParams{UserID: in.number(), MaxConnectors: b.MaxConnectors, MaxConcurrentSyncs: b.MaxConcurrentSyncs, MaxDocuments: b.MaxDocuments, MaxBytes: b.MaxBytes})
			if err != nil {
				return err
			}
		}
		out, err = shownLimit(ctx, q, in.ByOwner, putStatus(stands == nil))
		return err
	})
	return out, err
}

// DeleteLimit is whose limits to delete.
type DeleteLimit struct {
	ByOwner
	Matching
}

func (a *API) deleteLimit(ctx context.Context, in *DeleteLimit) (*Nothing, error) {
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := optional(q.LockLimit(ctx, in.number()))
		if err != nil {
			return err
		}
		if stands == nil {
			return in.missing()
		}
		if err := in.matches(Limit(*stands).etag()); err != nil {
			return err
		}
		_, err = q.DeleteLimit(ctx, in.number())
		return err
	})
	return &Nothing{}, err
}
