package api

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

// ConnectorList is how connectors are asked for.
type ConnectorList struct {
	ConnectorFilter
	Sort string `query:"sort" enum:"id,freshness" default:"id" doc:"freshness: the one first that is late for longest, then those that will be, then those of which nobody has said how old they may be, the one first that was added first. One that never synced counts from when it was added."`
	Counts
	Paging
}

// ConnectorPage is one page of connectors.
type ConnectorPage struct {
	Body struct {
		Connectors    []Connector `json:"connectors"`
		NextPageToken *string     `json:"next_page_token" doc:"Null where there are no more. A page may have fewer connectors than asked for, and a next one."`
	}
}

// lookahead is how many connectors one page is looked for in, for admins, and where superadmins have a filter: no index has what they see.
const lookahead = 20_000

// bound says how far a page is looked for, and whether there is more behind that. isFiltered: not all that superadmins see is on it.
func bound(ctx context.Context, q *dbgen.Queries, isFiltered bool, after int32) (through int32, further bool, err error) {
	if !isBound(ctx, isFiltered) {
		return math.MaxInt32, false, nil
	}
	through, err = q.ConnectorsThrough(ctx, dbgen.ConnectorsThroughParams{After: after, Look: lookahead})
	if errors.Is(err, pgx.ErrNoRows) {
		return math.MaxInt32, false, nil
	}
	return through, err == nil, err
}

// freshLook is the same in the order of freshness, in which neighbours are far from each other in the table: each costs three pages.
const freshLook = 10_000

func isBound(ctx context.Context, isFiltered bool) bool {
	role := requestOf(ctx).Role
	return role != identity.User && (role != identity.Superadmin || isFiltered)
}

func (a *API) listConnectors(ctx context.Context, in *ConnectorList) (*ConnectorPage, error) {
	find := a.byNumber
	if in.Sort == "freshness" {
		find = a.byFreshness
	}
	found, next, err := find(ctx, in)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, len(found))
	for i, c := range found {
		ids[i] = c.ID
	}
	counted, err := a.counted(ctx, in.Counts, ids...)
	out := &ConnectorPage{}
	out.Body.NextPageToken = next
	out.Body.Connectors = make([]Connector, len(found))
	for i, c := range found { // masked once the connection is given back
		out.Body.Connectors[i] = viewConnector(c)
		out.Body.Connectors[i].count(counted)
	}
	return out, err
}

// byNumber finds a page of connectors, and where to go on.
func (a *API) byNumber(ctx context.Context, in *ConnectorList) (found []dbgen.ApiConnector, next *string, err error) {
	p := dbgen.ListConnectorsParams{
		Name: given(in.Name), Type: given(in.Type), Status: given(in.Status), UserID: given(int32(in.UserID)), Scope: given(in.Scope), ScopeID: given(in.ScopeID), Late: in.Late,
	}
	token, err := a.place(ctx, in.PageToken, in.ConnectorFilter, &p.After)
	if err != nil {
		return nil, nil, err
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		through, further, err := bound(ctx, q, in.ConnectorFilter != (ConnectorFilter{}), p.After)
		if err != nil {
			return err
		}
		p.Through = through
		var more bool
		found, more, err = filled(in.most(), mostBytes, func(c dbgen.ApiConnector) int { return len(c.Config) }, func(rows int32, behind *dbgen.ApiConnector) ([]dbgen.ApiConnector, error) {
			if p.Page = rows; behind != nil {
				p.After = behind.ID
			}
			return q.ListConnectors(ctx, p)
		})
		switch {
		case more:
			next = token(found[len(found)-1].ID)
		case further:
			next = token(p.Through)
		}
		return err
	})
	return found, next, err
}

// freshPlace is behind which connector a page by freshness begins. One that is synced between two pages comes once more, or was on an earlier page; no other is left out.
type freshPlace struct {
	FreshUntil  time.Time `json:"u"`
	ConnectorID int32     `json:"c"`
}

// byFreshness is byNumber, the one that is late for longest first.
func (a *API) byFreshness(ctx context.Context, in *ConnectorList) (found []dbgen.ApiConnector, next *string, err error) {
	var at freshPlace
	token, err := a.place(ctx, in.PageToken, []any{in.Sort, in.ConnectorFilter}, &at)
	if err != nil {
		return nil, nil, err
	}
	p := dbgen.FreshestLastParams{
		After: at.FreshUntil, AfterID: at.ConnectorID, Page: in.most() + 1,
		Name: given(in.Name), Type: given(in.Type), Status: given(in.Status), UserID: given(int32(in.UserID)), Scope: given(in.Scope), ScopeID: given(in.ScopeID), Late: in.Late,
	}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		p.IsBound = isBound(ctx, in.ConnectorFilter != (ConnectorFilter{}))
		if requestOf(ctx).Role == identity.User { // what is shared with them may be most of all
			var err error
			if p.IsBound, err = q.SeesMoreThan(ctx, freshLook); err != nil {
				return err
			}
		}
		if p.IsBound {
			through, err := q.FreshnessThrough(ctx, dbgen.FreshnessThroughParams{After: p.After, AfterID: p.AfterID, Look: freshLook})
			if p.IsBound = !errors.Is(err, pgx.ErrNoRows); p.IsBound && err != nil {
				return err
			}
			p.Through, p.ThroughID = through.FreshUntil, through.ConnectorID
		}
		places, err := q.FreshestLast(ctx, p)
		if err != nil {
			return err
		}
		places, more := cut(places, in.most())
		var shown int
		if found, shown, err = connectorsAt(ctx, q, places); err != nil {
			return err
		}
		switch {
		case more || shown < len(places):
			next = token(freshPlace{places[shown-1].FreshUntil, places[shown-1].ID})
		case p.IsBound:
			next = token(freshPlace{p.Through, p.ThroughID})
		}
		return nil
	})
	return found, next, err
}

// connectorsAt reads the connectors of a page in its order, in portions, up to as many bytes as a page has, and says how many of the places it has come through.
func connectorsAt(ctx context.Context, q *dbgen.Queries, places []dbgen.FreshestLastRow) (found []dbgen.ApiConnector, shown int, err error) {
	bytes := mostBytes
	for some := range slices.Chunk(places, portion) {
		ids := make([]int32, len(some))
		for i, p := range some {
			ids[i] = p.ID
		}
		read, err := q.ConnectorsOf(ctx, ids)
		if err != nil {
			return nil, 0, err
		}
		of := map[int32]dbgen.ApiConnector{}
		for _, c := range read {
			of[c.ID] = c
		}
		for _, id := range ids {
			if c, is := of[id]; is { // it may be gone since
				if bytes -= len(c.Config); len(found) > 0 && bytes < 0 {
					return found, shown, nil
				}
				found = append(found, c)
			}
			shown++
		}
	}
	return found, shown, nil
}
