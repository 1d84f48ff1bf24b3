package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/evidence/failures"
	"github.com/echomind/sync/sdk/client"
)

const (
	// remoteLook is the time between two looks through a server: each is two requests.
	remoteLook = time.Second
	// runsLooked is among how many of the latest runs of a connector the one is that answers.
	runsLooked = 50
)

// triggerAndWait is that of the database: it asks for a sync, and shows its progress until the verdict.
func (r *remote) triggerAndWait(c *cobra.Command, named string, allow bool, with *runParameters, timeout time.Duration, out output) error {
	id, err := r.connectorID(c.Context(), named)
	if err != nil {
		return err
	}
	since, err := r.sync(c.Context(), id, allow, with)
	if err != nil {
		return err
	}
	if err := r.tellHeld(c.Context(), c.ErrOrStderr(), id); err != nil {
		return err
	}
	var last *uuid.UUID // of the runs that were seen
	return waiting{id, timeout, out}.wait(c.Context(), c, func(ctx context.Context, show func(await.Progress)) (*dbgen.SchedulerRun, error) {
		return await.Follow(ctx, await.Source{
			Name: "the server", Every: remoteLook, Away: client.IsAway, Loose: true,
			Look: func(ctx context.Context) (s await.Seen, err error) {
				if s, err = r.look(ctx, id, since, with.asks()); err == nil && s.Connector == nil && last != nil {
					s.Runs, err = r.ofGone(ctx, *last)
				}
				if n := len(s.Runs); n > 0 {
					last = &s.Runs[n-1].ID
				}
				return s, err
			},
		}, with.asks(), show)
	}, func(ctx context.Context) (failures.Summary, error) { return r.failed(ctx, id) })
}

// look reads the connector before its runs: what has come of it meanwhile they say.
func (r *remote) look(ctx context.Context, id int32, since time.Time, asked bool) (s await.Seen, err error) {
	s.Now = time.Now()
	found, _, err := r.connectorWith(ctx, id, &client.ConnectorsGetParams{})
	switch {
	case notFound(err):
		return s, nil
	case err != nil:
		return s, err
	}
	s.Connector = &dbgen.Connector{
		ID: found.ID, Status: found.Status, StatusMessage: found.StatusMessage, NextSyncAt: found.NextSyncAt, DueReason: found.DueReason,
		NextParameters: found.NextParameters, ParametersDueAt: found.ParametersDueAt,
	}
	answer, err := r.api.ConnectorsRunsWithResponse(ctx, id, &client.ConnectorsRunsParams{PageSize: new(int32(runsLooked))})
	switch {
	case notFound(err):
		return await.Seen{Now: s.Now}, nil
	case err != nil:
		return s, fmt.Errorf("read the runs: %w", err)
	}
	page, err := readAs[remoteRuns](answer.Body)
	for _, one := range slices.Backward(page.Runs) {
		if row := one.row(); await.Answers(row, since, asked) {
			s.Runs = append(s.Runs, row)
		}
	}
	return s, err
}

// ofGone is the run of a deleted connector, if the caller still sees it.
func (r *remote) ofGone(ctx context.Context, id uuid.UUID) ([]dbgen.SchedulerRun, error) {
	found, err := r.run(ctx, id)
	switch {
	case notFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []dbgen.SchedulerRun{found.row()}, nil
}
