package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/sdk/client"
)

// fewOpen is how many open runs are asked for one by one; of more all that are open are listed.
const fewOpen = 20

// connector is one connector, with its version.
func (r *remote) connector(ctx context.Context, id int32) (c connector, version string, err error) {
	return r.connectorWith(ctx, id, &client.ConnectorsGetParams{})
}

func (r *remote) connectorWith(ctx context.Context, id int32, with *client.ConnectorsGetParams) (c connector, version string, err error) {
	answer, err := r.api.ConnectorsGetWithResponse(ctx, id, with)
	if err != nil {
		return c, "", connectorError(id, fmt.Sprintf("read connector %d", id), err)
	}
	if c, err = readAs[connector](answer.Body); err == nil {
		err = r.is(c.ID == id)
	}
	return c.asShown(), answer.HTTPResponse.Header.Get("ETag"), err
}

// connectors are those that a server lists.
func (r *remote) connectors(ctx context.Context, asked dbgen.ListConnectorsParams) (found connectorsFound, err error) {
	p := client.ConnectorsListParams{
		Type: asked.Type, Status: (*client.ConnectorsListParamsStatus)(asked.Status), UserID: asked.UserID, Counts: new(true), PageSize: new(int32(pageSize)),
	}
	found.list, err = readPages(ctx, "connectors", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.ConnectorsListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, never[connector])
	if err != nil {
		return found, fmt.Errorf("list connectors: %w", err)
	}
	for i, c := range found.list {
		found.list[i] = c.asShown()
	}
	return found, r.complete(ctx, &found)
}

func (r *remote) oneConnector(ctx context.Context, named string) (found connectorsFound, err error) {
	id, err := r.connectorID(ctx, named)
	if err != nil {
		return found, err
	}
	one, _, err := r.connectorWith(ctx, id, &client.ConnectorsGetParams{Counts: new(true)})
	if err != nil {
		return found, err
	}
	found.list = []connector{one}
	return found, r.complete(ctx, &found)
}

// complete asks for what is shown beside connectors.
func (r *remote) complete(ctx context.Context, found *connectorsFound) (err error) {
	found.list, found.now = append([]connector{}, found.list...), time.Now()
	var open []uuid.UUID
	for _, c := range found.list {
		if c.RunID != nil {
			open = append(open, *c.RunID)
		}
		if c.DocumentsFailed == nil {
			found.uncounted = errUncounted
		}
	}
	found.waiting, err = r.waiting(ctx, open)
	return err
}

// waiting are open runs with what they wait for, and how far they have come. One that has ended meanwhile is not among them.
func (r *remote) waiting(ctx context.Context, open []uuid.UUID) (waitingRuns, error) {
	found := waitingRuns{}
	add := func(s dbgen.SchedulerRun) {
		found[s.ID] = dbgen.WaitingRunsRow{
			ID: s.ID, WaitsUntil: s.WaitsUntil, WaitMessage: s.WaitMessage, ProgressDone: s.ProgressDone, ProgressTotal: s.ProgressTotal, ProgressText: s.ProgressText,
		}
	}
	if len(open) > fewOpen {
		runs, err := r.openRuns(ctx)
		for _, s := range runs {
			add(s.row())
		}
		return found, err
	}
	for _, id := range open {
		s, err := r.run(ctx, id)
		switch {
		case notFound(err):
		case err != nil:
			return nil, err
		default:
			add(s.row())
		}
	}
	return found, nil
}

// asShown is a connector of a server as one of the database is shown.
func (v connector) asShown() connector {
	v.NextParameters = absent(v.NextParameters)
	return v
}

// absent is nil for a null.
func absent(value json.RawMessage) json.RawMessage {
	if bytes.Equal(value, []byte("null")) {
		return nil
	}
	return value
}
