package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) connectorRoutes() {
	register(a, identity.ListConnectors, http.MethodGet, "/connectors", "List the connectors that you see, by number or by freshness", http.StatusOK, a.listConnectors)
	register(a, identity.CreateConnector, http.MethodPost, "/connectors", "Add a connector", http.StatusCreated, a.createConnector)
	register(a, identity.GetConnector, http.MethodGet, "/connectors/{id}", "Show a connector", http.StatusOK, a.getConnector)
	register(a, identity.UpdateConnector, http.MethodPatch, "/connectors/{id}", "Change what is given of a connector", http.StatusOK, a.updateConnector)
	register(a, identity.DeleteConnector, http.MethodDelete, "/connectors/{id}", "Delete a connector and its documents", http.StatusNoContent, a.deleteConnector)
	register(a, identity.SyncConnector, http.MethodPost, "/connectors/{id}/sync", "Sync a connector now", http.StatusAccepted, a.syncConnector)
	register(a, identity.EnableConnector, http.MethodPost, "/connectors/{id}/enable", "Switch a connector on; its failures are forgotten", http.StatusOK, a.enableConnector)
	register(a, identity.DisableConnector, http.MethodPost, "/connectors/{id}/disable", "Switch a connector off; a sync in flight is ended", http.StatusOK, a.disableConnector)
}

// ByID names one connector.
type ByID struct {
	ID int64 `path:"id" minimum:"1" maximum:"2147483647" format:"int32"` // int64, as what is beyond int32 would be cut to it before it is looked at
}

func (b ByID) number() int32 { return int32(b.ID) }

// ConnectorFilter is what may be asked of a list of connectors.
type ConnectorFilter struct {
	Name    string `query:"name" maxLength:"200" doc:"Whose name has this in it, in capitals or not."`
	Type    string `query:"type" maxLength:"63"`
	Status  string `query:"status" enum:"PENDING,SYNCING,ACTIVE,ERROR,DISABLED"`
	UserID  int64  `query:"user_id" minimum:"1" maximum:"2147483647" format:"int32" doc:"Whose."`
	Scope   string `query:"scope" enum:"user,group,org,system"`
	ScopeID string `query:"scope_id" maxLength:"128"`
	Late    bool   `query:"late" doc:"Only those that are older than fresh_within_minutes says. One that never synced counts from when it was added."`
}

// OneConnector is one connector with its version.
type OneConnector struct {
	ETag string `header:"ETag" doc:"The version of what users write of it: If-Match of a change."`
	Body Connector
}

func given[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

func seen(ctx context.Context, q *dbgen.Queries, id int32) (*OneConnector, error) {
	found, err := q.GetConnector(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, problem.NotFound(fmt.Sprintf("connector %d", id))
	}
	if err != nil {
		return nil, err
	}
	out := &OneConnector{ETag: etag(found.ID, found.UpdatedAt), Body: viewConnector(found)}
	if out.Body.RunAfter, err = upstreams(ctx, q, id); err != nil {
		return nil, err
	}
	if !requestOf(ctx).Has(identity.Read) { // who may only change it is not shown what was in it
		out.Body.Config, out.Body.NextParameters = Object("{}"), nil
	}
	return out, nil
}

// GetConnector is which connector is asked for.
type GetConnector struct {
	ByID
	Counts
}

func (a *API) getConnector(ctx context.Context, in *GetConnector) (out *OneConnector, err error) {
	err = a.byKey(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		out, err = seen(ctx, q, in.number())
		return err
	})
	if err != nil {
		return nil, err
	}
	counted, err := a.counted(ctx, in.Counts, in.number())
	out.Body.count(counted)
	return out, err
}

// CreateConnector is what to add.
type CreateConnector struct {
	Once
	Body NewConnector
}

func (a *API) createConnector(ctx context.Context, in *CreateConnector) (out *OneConnector, err error) {
	by := "user " + fmt.Sprint(requestOf(ctx).UserID)
	p := dbgen.AddConnectorParams{
		Name: in.Body.Name, Type: in.Body.Type, UserID: new(requestOf(ctx).UserID), Scope: "user", Config: []byte("{}"), TimeZone: "UTC", SpreadPercent: 10,
		Overlap: "skip", CatchUp: "latest", CatchUpMost: 10, CalendarUse: slots.Exclude, MaxRetries: 5, DeletionGuard: true, By: &by,
	}
	in.Body.apply(&p, requestOf(ctx).Who)
	leave, err := a.turnAtChains(ctx, in.Body.Settings)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if err := in.Body.takeTurn(ctx, q); err != nil {
			return "", err
		}
		if err := mayCreate(ctx, q, p); err != nil {
			return "", err
		}
		if err := in.Body.check(p); err != nil {
			return "", err
		}
		if !in.Body.RefreshFreqMinutes.Given && !in.Body.ScheduleCron.Given && !in.Body.follows() {
			minutes, err := q.DefaultRefresh(ctx, p.Type)
			if err != nil {
				return "", err
			}
			p.RefreshFreqMinutes = &minutes
		}
		if p.ID, err = q.ReserveID(ctx); err != nil { // envelopes are of a number
			return "", err
		}
		sealed := p // the transaction may be repeated
		if err := a.seal(&sealed); err != nil {
			return "", err
		}
		if _, err := q.AddConnector(ctx, sealed); err != nil {
			return "", unknownName(err, p)
		}
		_, err := in.Body.writeChain(ctx, q, p.ID)
		return strconv.Itoa(int(p.ID)), err
	}, func(ctx context.Context, q *dbgen.Queries, done string) error {
		id, err := number(done)
		if err == nil {
			out, err = seen(ctx, q, id)
		}
		return err
	})
	return out, err
}

// number is the number of the connector that a repeated answer shows.
func number(done string) (int32, error) {
	n, err := strconv.ParseInt(done, 10, 32)
	return int32(n), err
}

// locked locks a connector that its viewer may change; of one that the viewer may only see it says so.
func locked(ctx context.Context, q *dbgen.Queries, id int32) (dbgen.ApiChangeable, error) {
	found, err := q.LockConnector(ctx, id)
	if !errors.Is(err, pgx.ErrNoRows) {
		return found, err
	}
	sees, err := q.SeesConnector(ctx, id)
	switch {
	case err != nil:
		return found, err
	case !sees:
		return found, problem.NotFound(fmt.Sprintf("connector %d", id))
	}
	return found, problem.Forbidden(fmt.Sprintf("You see connector %d, and may not change it.", id), "Ask a superadmin. A source of a group is changed by who leads the group, and by admins in it, too.")
}

// Versioned is a change of a version.
type Versioned struct {
	ByID
	Matching
}

func (v Versioned) check(of dbgen.ApiChangeable) error { return v.matches(etag(of.ID, of.UpdatedAt)) }

// Nothing is the answer without a body.
type Nothing struct{}

func (a *API) deleteConnector(ctx context.Context, in *Versioned) (*Nothing, error) {
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		old, err := locked(ctx, q, in.number())
		if err != nil {
			return err
		}
		if err := in.check(old); err != nil {
			return err
		}
		_, err = removed(ctx, q, in.number())
		return err
	})
	return &Nothing{}, err
}

// SyncRequest is how to sync.
type SyncRequest struct {
	AllowDeletions bool   `json:"allow_deletions,omitempty" doc:"The sync may delete many documents at once."`
	Parameters     Object `json:"parameters,omitempty" doc:"What one run of a job has over the configuration: a JSON merge patch."`
}

// SyncConnector asks for a sync.
type SyncConnector struct {
	OnceByID
	Body *SyncRequest
}

// Asked is what was asked for.
type Asked struct {
	Body struct {
		ConnectorID        int32     `json:"connector_id"`
		TriggerRequestedAt time.Time `json:"trigger_requested_at"`
	}
}

func (a *API) syncConnector(ctx context.Context, in *SyncConnector) (*Asked, error) {
	p, out := dbgen.SyncParams{ID: in.number()}, &Asked{}
	if in.Body != nil {
		p.AllowDeletions = in.Body.AllowDeletions
		if in.Body.Parameters != nil && string(in.Body.Parameters) != "null" {
			object, isObject := objectOf(in.Body.Parameters)
			if !isObject {
				return nil, problem.Invalid("body.parameters", "must be an object")
			}
			if err := unmasked(object, "body.parameters"); err != nil {
				return nil, err
			}
			p.Parameters = in.Body.Parameters
		}
	}
	err := a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if _, err := locked(ctx, q, in.number()); err != nil {
			return "", err
		}
		at, err := q.Sync(ctx, p)
		return fmt.Sprint(in.number(), " ", at.UTC().Format(time.RFC3339Nano)), err
	}, func(_ context.Context, _ *dbgen.Queries, done string) (err error) {
		var at string
		if _, err = fmt.Sscan(done, &out.Body.ConnectorID, &at); err == nil {
			out.Body.TriggerRequestedAt, err = time.Parse(time.RFC3339Nano, at)
		}
		return err
	})
	return out, err
}

func (a *API) enableConnector(ctx context.Context, in *OnceByID) (*OneConnector, error) {
	return a.switched(ctx, in.number(), func(ctx context.Context, q *dbgen.Queries) error {
		_, err := enabled(ctx, q, in.number())
		return err
	})
}

func (a *API) disableConnector(ctx context.Context, in *OnceByID) (*OneConnector, error) {
	return a.switched(ctx, in.number(), func(ctx context.Context, q *dbgen.Queries) error {
		_, err := disabled(ctx, q, in.number())
		return err
	})
}

// What is done to one connector, alone or as one of many, that its viewer has locked. It says whether that has changed anything.

func triggered(ctx context.Context, q *dbgen.Queries, id int32) (bool, error) {
	_, err := q.Sync(ctx, dbgen.SyncParams{ID: id})
	return true, err
}

func enabled(ctx context.Context, q *dbgen.Queries, id int32) (bool, error) { return q.Enable(ctx, id) }

func disabled(ctx context.Context, q *dbgen.Queries, id int32) (bool, error) {
	return q.Disable(ctx, dbgen.DisableParams{ID: id, Message: fmt.Sprintf("disabled by user %d", requestOf(ctx).UserID)})
}

func removed(ctx context.Context, q *dbgen.Queries, id int32) (bool, error) {
	n, err := q.DeleteConnector(ctx, id)
	return n > 0, err
}

// switched moves a connector. That it stands so already is no error. Its number is kept with the request's key: a job's name may be another's when the request comes again.
func (a *API) switched(ctx context.Context, id int32, move func(context.Context, *dbgen.Queries) error) (out *OneConnector, err error) {
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if _, err := locked(ctx, q, id); err != nil {
			return "", err
		}
		return strconv.Itoa(int(id)), move(ctx, q)
	}, func(ctx context.Context, q *dbgen.Queries, done string) error {
		id, err := number(done)
		if err == nil {
			out, err = seen(ctx, q, id)
		}
		return err
	})
	return out, err
}
