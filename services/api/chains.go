package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// Upstream is a connector that another one runs after.
type Upstream struct {
	ConnectorID    int32  `json:"connector_id"`
	Accepts        string `json:"accepts" enum:"completed,skipped" doc:"Which of its runs count; skipped: the completed ones, too."`
	MaxAgeMinutes  *int32 `json:"max_age_minutes" doc:"How old the slot of such a run may be; null = of any age."`
	TimeoutMinutes *int32 `json:"timeout_minutes" doc:"How long it is waited for; null = for ever."`
}

// upstreams are those that a connector runs after, as far as the viewer sees them.
func upstreams(ctx context.Context, q *dbgen.Queries, id int32) ([]Upstream, error) {
	rows, err := q.RunAfter(ctx, id)
	if err != nil {
		return nil, err
	}
	all := make([]Upstream, len(rows))
	for i, u := range rows {
		all[i] = Upstream{u.UpstreamID, u.Accepts, u.MaxAgeMinutes, u.TimeoutMinutes}
	}
	return all, nil
}

// NewUpstream is a connector that another one shall run after.
type NewUpstream struct {
	ConnectorID    int64  `json:"connector_id" minimum:"1" maximum:"2147483647" format:"int32"`
	Accepts        string `json:"accepts,omitempty" enum:"completed,skipped" doc:"Which of its runs count: the completed ones, or skipped: these and the skipped ones. completed, where you do not say."`
	MaxAgeMinutes  *int32 `json:"max_age_minutes,omitempty" nullable:"true" minimum:"1" maximum:"525600" doc:"How old the slot of such a run may be; null = of any age."`
	TimeoutMinutes *int32 `json:"timeout_minutes,omitempty" nullable:"true" minimum:"1" maximum:"525600" doc:"How long it is waited for; null = for ever."`
}

// follows says whether it is to run after others.
func (s Settings) follows() bool { return s.RunAfter.Value != nil && len(*s.RunAfter.Value) > 0 }

// takeTurn is before anything else of a change of whom a connector runs after. Who has the turn waits for no row for long: everybody else waits for them.
func (s Settings) takeTurn(ctx context.Context, q *dbgen.Queries) error {
	if !s.RunAfter.Given {
		return nil
	}
	err := q.TakeTurnAtChains(ctx, chainTurnTimeout.String())
	if postgres.Locked(err) {
		return problem.ManyChains()
	}
	if err != nil {
		return err
	}
	return q.WaitForRows(ctx, chainRowTimeout.String())
}

// turnAtChains waits, without a connection, for the other changes of chains of this replica, if it is one: one of them at a time waits for those of others, or is made.
func (a *API) turnAtChains(ctx context.Context, s Settings) (leave func(), err error) {
	if !s.RunAfter.Given {
		return func() {}, nil
	}
	return a.chains.begin(ctx, requestOf(ctx).UserID)
}

// upstreams are those that the connector of a number is to run after.
func (s Settings) upstreams(id int32) (ids []int32, all []Upstream, err error) {
	ids, all = []int32{}, []Upstream{}
	if s.RunAfter.Value == nil {
		return ids, all, nil
	}
	for i, u := range *s.RunAfter.Value {
		of := Upstream{int32(u.ConnectorID), u.Accepts, u.MaxAgeMinutes, u.TimeoutMinutes}
		if of.Accepts == "" {
			of.Accepts = "completed"
		}
		switch {
		case of.ConnectorID == id:
			return nil, nil, refusedUpstream(i, fmt.Sprintf("%d is the connector itself; name another", id))
		case slices.Contains(ids, of.ConnectorID):
			return nil, nil, refusedUpstream(i, fmt.Sprintf("%d is named twice; name it once", of.ConnectorID))
		}
		ids, all = append(ids, of.ConnectorID), append(all, of)
	}
	return ids, all, nil
}

func refusedUpstream(at int, detail string) error {
	return problem.Invalid(fmt.Sprintf("body.run_after[%d].connector_id", at), detail)
}

// writeChain writes what is given of whom a connector runs after, and says whether that changes anything. Those that stay keep what they have been used for.
func (s Settings) writeChain(ctx context.Context, q *dbgen.Queries, id int32) (isChanged bool, err error) {
	if !s.RunAfter.Given {
		return false, nil
	}
	ids, all, err := s.upstreams(id)
	if err != nil {
		return false, err
	}
	if i, wrong, err := unseen(ctx, q, ids); err != nil {
		return false, err
	} else if wrong != "" {
		return false, refusedUpstream(i, wrong)
	}
	rows, err := json.Marshal(all)
	if err != nil {
		return false, err
	}
	for _, write := range []func() (int64, error){
		func() (int64, error) {
			return q.RemoveUpstreams(ctx, dbgen.RemoveUpstreamsParams{ConnectorID: id, Keep: ids})
		},
		func() (int64, error) {
			return q.ChangeUpstreams(ctx, dbgen.ChangeUpstreamsParams{ConnectorID: id, Upstreams: rows})
		},
		func() (int64, error) {
			return q.AddUpstreams(ctx, dbgen.AddUpstreamsParams{ConnectorID: id, Upstreams: rows})
		},
	} {
		n, err := write()
		if err != nil {
			return false, err
		}
		isChanged = isChanged || n > 0
	}
	return isChanged, nil
}

// unseen says which of some connectors is the first that the viewer does not see, and what is to be done; "": they see all.
func unseen(ctx context.Context, q *dbgen.Queries, ids []int32) (at int, wrong string, err error) {
	sees, err := q.SeenOf(ctx, ids)
	if err != nil {
		return 0, "", err
	}
	for i, id := range ids {
		if !slices.Contains(sees, id) {
			return i, fmt.Sprintf("%d is no connector that you may see; name one that /api/v1/connectors lists", id), nil
		}
	}
	return 0, "", nil
}
