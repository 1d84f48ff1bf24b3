package console

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
)

// waitingRuns are open runs that wait because their source has asked for it, and jobs that say how far they have come.
type waitingRuns map[uuid.UUID]dbgen.WaitingRunsRow

// runsThatWait looks for the open runs of these connectors that wait.
func runsThatWait(ctx context.Context, pool *pgxpool.Pool, connectors []dbgen.Connector) (waitingRuns, error) {
	var open []uuid.UUID
	for _, c := range connectors {
		if c.RunID != nil {
			open = append(open, *c.RunID)
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	found, err := ask(ctx, pool, "waiting_runs", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.WaitingRunsRow, error) {
		return q.WaitingRuns(ctx, open)
	})
	if err != nil {
		return nil, fmt.Errorf("ask which runs wait: %w", err)
	}
	waiting := waitingRuns{}
	for _, r := range found {
		waiting[r.ID] = r
	}
	return waiting, nil
}

// message is what there is to say of a connector: what it waits for, or how far its job has come, else its status message.
func (w waitingRuns) message(c connector, now time.Time) *string {
	if c.RunID != nil {
		switch r, says := w[*c.RunID]; {
		case says && r.WaitMessage != nil && r.WaitsUntil != nil && r.WaitsUntil.After(now):
			return new(clock.Wait(*r.WaitMessage, *r.WaitsUntil, now))
		case says && (r.ProgressDone != nil || r.ProgressText != nil):
			return new(clock.Progress(r.ProgressDone, r.ProgressTotal, r.ProgressText))
		}
	}
	if c.StatusMessage != nil && c.NextSyncAt != nil && c.DueReason != nil && *c.DueReason == "wait" {
		return new(clock.Wait(*c.StatusMessage, *c.NextSyncAt, now) + clock.PutOff(c.PutOffSince, now))
	}
	return c.StatusMessage
}
