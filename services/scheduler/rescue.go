package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/sdk/topology"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// Rescue claims connectors again whose worker is lost: at once, under a new session, the first time; by way of
// ERROR and backoff after that, which is how a source that kills its workers is stopped. A rescue keeps the place it
// holds: the cap does not apply. Nobody is rescued while Postgres takes no more connections: a worker that has lost its
// own is alive and cannot say so.
func (s *Scheduler) Rescue(ctx context.Context) error {
	full, err := deadline.Get(ctx, "scheduler.connections", queryTimeout, s.queries.IsFull)
	if err != nil {
		return fmt.Errorf("ask for free connections: %w", err)
	}
	if full == nil || *full {
		s.holdRescue()
	}
	if time.Now().Before(s.rescueFrom) {
		return nil
	}
	for full := true; full && ctx.Err() == nil; {
		var lost []dbgen.LockAbandonedRow
		var again map[string][]Trigger
		err := deadline.Do(ctx, "scheduler.rescue", claimTimeout, func(ctx context.Context) error {
			return postgres.Tx(ctx, s.servers.Pool, func(tx pgx.Tx) (err error) {
				lost, again, err = s.rescue(ctx, s.queries.WithTx(tx))
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("rescue: %w", err)
		}
		failpoint.At("scheduler.rescued")
		full = len(lost) == s.config.ClaimBatch
		for _, r := range lost {
			s.dispatcher.traceEnd(ctx, tracing.Rescue, *r.ChunkingSession, r.ID, "worker lost")
			telemetry.OfRun(s.log, r.ID, r.ChunkingSession.String(), r.Type).Warn(
				"the worker was lost; its lease has run out", "event", telemetry.Failed)
		}
		for connectorType, batch := range again {
			s.metrics.rescued.WithLabelValues(connectorType).Add(float64(len(batch)))
			s.dispatcher.publish(ctx, connectorType, batch)
		}
	}
	return nil
}

// rescue returns the runs that it has ended, and what follows them.
func (s *Scheduler) rescue(
	ctx context.Context, q *dbgen.Queries,
) (lost []dbgen.LockAbandonedRow, again map[string][]Trigger, err error) {
	rows, err := q.LockAbandoned(ctx, dbgen.LockAbandonedParams{
		ForeignTimeout: s.config.ForeignTimeout, Batch: int32(s.config.ClaimBatch),
	})
	if err != nil || len(rows) == 0 {
		return nil, nil, wrap("lock abandoned connectors", err)
	}
	again = map[string][]Trigger{}
	var claim dbgen.ClaimAgainParams
	var fail []int32
	for _, r := range rows {
		if r.FailureCount > 0 || r.MaxRetries <= 1 {
			fail = append(fail, r.ID)
			continue
		}
		t := Trigger{
			ID: r.ID, UserID: r.UserID, Scope: r.Scope, ScopeID: r.ScopeID, Config: r.Config, State: r.State,
			ConfigVersion: r.ConfigVersion, Session: uuid.New(), Reason: "rescue", DueAt: r.Now, DispatchedAt: r.Now,
			claimedAt: time.Now(), rescued: *r.ChunkingSession,
		}
		again[r.Type] = append(again[r.Type], t)
		claim.Now = r.Now
		claim.Ids = append(claim.Ids, t.ID)
		claim.Sessions = append(claim.Sessions, t.Session)
	}
	if len(fail) > 0 {
		if err := q.FailAbandoned(ctx, fail); err != nil {
			return nil, nil, wrap("fail abandoned connectors", err)
		}
	}
	if len(claim.Ids) > 0 {
		if err := q.ClaimAgain(ctx, claim); err != nil {
			return nil, nil, wrap("claim again", err)
		}
	}
	for connectorType, batch := range again {
		if err := openRuns(ctx, q, connectorType, batch); err != nil {
			return nil, nil, err
		}
	}
	return rows, again, nil
}

func openRuns(ctx context.Context, q *dbgen.Queries, connectorType string, batch []Trigger) error {
	jobName, err := topology.SyncSubject(connectorType)
	if err != nil {
		return err
	}
	runs := dbgen.OpenRunsParams{JobName: jobName}
	for _, t := range batch {
		runs.Ids = append(runs.Ids, t.ID)
		runs.Sessions = append(runs.Sessions, t.Session)
		runs.Reasons = append(runs.Reasons, t.Reason)
		runs.Slots = append(runs.Slots, time.Time{}) // a rescue answers no slot of its own
		runs.DueAts = append(runs.DueAts, t.DueAt)
		runs.ConfigVersions = append(runs.ConfigVersions, t.ConfigVersion)
	}
	return wrap("open runs", q.OpenRuns(ctx, runs))
}
