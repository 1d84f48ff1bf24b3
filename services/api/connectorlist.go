package api

import (
	"context"
	"slices"
	"time"

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

const (
	// lookahead is how many connectors one page is looked for in, where there is a filter.
	lookahead = 20_000
	// freshLook is the same in the order of freshness, in which neighbours are far from each other in the table: each costs three pages.
	freshLook = 10_000
)

func (a *API) listConnectors(ctx context.Context, in *ConnectorList) (*ConnectorPage, error) {
	found, next, err := a.pageOfConnectors(ctx, in)
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

// connectorPlace is behind which connector a page by freshness begins; by number it is the number alone. One that is synced between two pages comes once more, or was on an earlier page; no other is
// left out.
type connectorPlace struct {
	FreshUntil  time.Time `json:"u"`
	ConnectorID int32     `json:"c"`
}

// pageOfConnectors finds a page, and where to go on.
func (a *API) pageOfConnectors(ctx context.Context, in *ConnectorList) (found []dbgen.ApiConnector, next *string, err error) {
	var at connectorPlace
	if err := areTexts(map[string]string{"name": in.Name, "type": in.Type, "scope_id": in.ScopeID}); err != nil {
		return nil, nil, err
	}
	filter, into := any(in.ConnectorFilter), any(&at.ConnectorID) // as releases before have it
	if in.Sort == "freshness" {
		filter, into = []any{in.Sort, in.ConnectorFilter}, &at
	}
	token, err := a.place(ctx, in.PageToken, filter, into)
	if err != nil {
		return nil, nil, err
	}
	place := func(c dbgen.ListConnectorsRow) *string {
		if in.Sort == "freshness" {
			return token(connectorPlace{c.FreshUntil, c.ID})
		}
		return token(c.ID)
	}
	p := dbgen.ListConnectorsParams{
		After: at.FreshUntil, AfterID: at.ConnectorID, Page: in.most() + 1, Look: lookahead,
		Name: given(in.Name), Type: given(in.Type), Status: given(in.Status), UserID: given(int32(in.UserID)), Scope: given(in.Scope), ScopeID: given(in.ScopeID), Late: in.Late,
	}
	if in.Sort == "freshness" {
		p.ByFreshness, p.Look = true, freshLook
	}
	err = a.byKey(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		places, end, err := listed(ctx, q, p)
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
			next = place(places[shown-1])
		case end != nil:
			next = place(*end)
		}
		return nil
	})
	return found, next, err
}

// listed are the places of a page of connectors, and the place up to which it was looked where there may be more behind that.
func listed(ctx context.Context, q *dbgen.Queries, p dbgen.ListConnectorsParams) (places []dbgen.ListConnectorsRow, end *dbgen.ListConnectorsRow, err error) {
	places, err = q.ListConnectors(ctx, p)
	if last := len(places) - 1; last >= 0 && places[last].IsEnd {
		return places[:last], &places[last], err
	}
	return places, nil, err
}

// connectorsAt reads the connectors of a page in its order, in portions, up to as many bytes as a page has, and says how many of the places it has come through.
func connectorsAt(ctx context.Context, q *dbgen.Queries, places []dbgen.ListConnectorsRow) (found []dbgen.ApiConnector, shown int, err error) {
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
