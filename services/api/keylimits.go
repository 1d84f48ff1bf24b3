package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// KeyLimit is how many runs of a concurrency key may be in flight at once.
type KeyLimit struct {
	Key       string    `json:"key"`
	Most      int32     `json:"most"`
	Held      int32     `json:"held" doc:"How many runs in flight have a place, up to 10,000."`
	Waiting   int32     `json:"waiting" doc:"How many connectors that are due wait for one, up to 10,000."`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy *string   `json:"created_by"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy *string   `json:"updated_by"`
}

func viewKeyLimit(l dbgen.ApiKeyLimit) KeyLimit {
	return KeyLimit{l.Key, l.Most, l.Held, l.Waiting, l.CreatedAt.UTC(), l.CreatedBy, l.UpdatedAt.UTC(), l.UpdatedBy}
}

// keyTag is the ETag of a limit that was written at a moment.
func keyTag(updated time.Time) string { return version(updated.UnixMicro()) }

// KeyLimitPage is one page of limits of keys.
type KeyLimitPage struct {
	Body struct {
		Limits        []KeyLimit `json:"limits"`
		NextPageToken *string    `json:"next_page_token"`
	}
}

func (a *API) listKeyLimits(ctx context.Context, in *Paging) (*KeyLimitPage, error) {
	p, out := dbgen.ListKeyLimitsParams{Page: in.most() + 1}, &KeyLimitPage{}
	next, err := a.place(ctx, in.PageToken, "limits of keys", &p.After)
	if err != nil {
		return nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.ListKeyLimits(ctx, p)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Limits = make([]KeyLimit, len(found))
		for i, l := range found {
			out.Body.Limits[i] = viewKeyLimit(l)
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].Key)
		}
		return nil
	})
	return out, err
}

// ByKey names a concurrency key.
type ByKey struct {
	Key string `path:"key" maxLength:"128" pattern:"^[A-Za-z0-9][A-Za-z0-9_.:/@-]*$" doc:"With its slashes as %2F."`
}

func (b ByKey) missing() error { return problem.NotFound(fmt.Sprintf("limit of key %s", b.Key)) }

// OneKeyLimit is the limit of a key, with its version.
type OneKeyLimit struct {
	Status int
	ETag   string `header:"ETag" doc:"Its version: If-Match of a change."`
	Body   KeyLimit
}

func (a *API) getKeyLimit(ctx context.Context, in *ByKey) (out *OneKeyLimit, err error) {
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		out, err = shownKeyLimit(ctx, q, *in, http.StatusOK)
		return err
	})
	return out, err
}

func shownKeyLimit(ctx context.Context, q *dbgen.Queries, of ByKey, status int) (*OneKeyLimit, error) {
	found, err := optional(q.GetKeyLimit(ctx, of.Key))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, of.missing()
	}
	return &OneKeyLimit{status, keyTag(found.UpdatedAt), viewKeyLimit(*found)}, nil
}

// PutKeyLimit is how many a key is to have.
type PutKeyLimit struct {
	ByKey
	Putting
	Body struct {
		Most int32 `json:"most" minimum:"0" maximum:"10000" doc:"0 = none from now on. What is in flight goes on, and counts."`
	}
}

func (a *API) putKeyLimit(ctx context.Context, in *PutKeyLimit) (out *OneKeyLimit, err error) {
	if in.Key == "none" {
		return nil, problem.Invalid("path.key", "none means that there is no key; choose another")
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := optional(q.LockKeyLimit(ctx, in.Key))
		if err != nil {
			return err
		}
		if stands == nil {
			if err := in.puts(nil); err != nil {
				return err
			}
			n, err := q.AddKeyLimit(ctx, dbgen.AddKeyLimitParams{Key: in.Key, Most: in.Body.Most})
			if err == nil && n == 0 {
				err = in.meanwhile()
			}
			if err != nil {
				return err
			}
		} else {
			if err := in.puts(new(keyTag(stands.UpdatedAt))); err != nil {
				return err
			}
			if _, err := q.ChangeKeyLimit(ctx, dbgen.ChangeKeyLimitParams{Key: in.Key, Most: in.Body.Most}); err != nil {
				return err
			}
		}
		out, err = shownKeyLimit(ctx, q, in.ByKey, putStatus(stands == nil))
		return err
	})
	return out, err
}

// DeleteKeyLimit is which limit to delete.
type DeleteKeyLimit struct {
	ByKey
	Matching
}

func (a *API) deleteKeyLimit(ctx context.Context, in *DeleteKeyLimit) (*Nothing, error) {
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := optional(q.LockKeyLimit(ctx, in.Key))
		if err != nil {
			return err
		}
		if stands == nil {
			return in.missing()
		}
		if err := in.matches(keyTag(stands.UpdatedAt)); err != nil {
			return err
		}
		_, err = q.DeleteKeyLimit(ctx, in.Key)
		return err
	})
	return &Nothing{}, err
}
