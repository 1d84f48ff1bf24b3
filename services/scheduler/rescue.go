package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// Rescue claims connectors again whose worker is lost: at once, under a new session, the first time. A run that is lost again
// is left to semantic, which fails it: that is how a source that kills its workers is stopped. A rescue keeps the place it holds:
// the cap does not apply. Nobody is rescued while Postgres takes no more connections, and for a lease after that: a worker
// that has lost its connection is alive and cannot say so.
func (s *Scheduler) Rescue(ctx context.Context) error {
	_, err := s.lookForWorkers(ctx)
	return err
}

func (s *Scheduler) lookForWorkers(ctx context.Context) (found outcome, err error) {
	var asked time.Time // when the last batch was
	defer func() {
		// The workers may not have reached Postgres either. A batch that took too long says nothing of them.
		if postgres.Unavailable(err) && (asked.IsZero() || !s.leases.Unheard(time.Since(asked), err)) {
			s.leases.Forget()
			s.outage.forget()
		}
	}()
	full, err := deadline.Get(ctx, "scheduler.connections", queryTimeout, s.queries.IsFull)
	if err != nil {
		return outcome{}, fmt.Errorf("ask for free connections: %w", err)
	}
	if full == nil || *full {
		s.leases.Forget()
	}
	silent, err := s.leases.Look(ctx)
	if err != nil || s.leases.Held() {
		return outcome{}, err
	}
	for until := time.Now().Add(s.lookTime); ctx.Err() == nil; {
		asked = time.Now()
		settled, err := s.claimAgain(ctx, silent)
		if err != nil {
			return outcome{}, fmt.Errorf("rescue: %w", err)
		}
		if settled == 0 {
			return outcome{}, nil
		}
		if time.Now().After(until) {
			left, err := deadline.Get(ctx, "scheduler.lost_left", queryTimeout, func(ctx context.Context) (int64, error) {
				return s.queries.LostLeft(ctx, dbgen.LostLeftParams{Silent: silent, Most: mostLeft})
			})
			return outcome{left: int(left), late: true}, wrap("count what is left", err)
		}
	}
	return outcome{}, nil
}

// claimAgain takes one batch of lost workers' connectors over and publishes them. It says how many the next batch does not find:
// those, and those whose rescue is refused, which wait and are tried again later.
func (s *Scheduler) claimAgain(ctx context.Context, silent []byte) (settled int, err error) {
	var found []dbgen.RescueRow
	err = deadline.Do(ctx, "scheduler.rescue", claimTimeout, func(ctx context.Context) error {
		return s.batch(ctx, func(tx pgx.Tx, how attempt) (err error) {
			found, err = s.queries.WithTx(tx).Rescue(ctx, dbgen.RescueParams{
				Silent: silent, ForeignTimeout: s.config.ForeignTimeout, Batch: int32(s.config.ClaimBatch),
				Apart: how == inHalves, Refused: s.unrescued.skipped(time.Now()), MostBytes: mostBatchBytes,
			})
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	var rows []dbgen.RescueRow
	for _, r := range found {
		if r.Problem == nil {
			rows = append(rows, r)
			continue
		}
		isNew, kept := s.unrescued.add(orZero(r.ConnectorID), time.Now())
		if isNew {
			s.log.Error("a connector whose worker is lost cannot be claimed again, and waits; the others go on", "connector",
				orZero(r.ConnectorID), "type", orZero(r.Type), "err", *r.Problem)
		}
		if kept {
			settled++
		}
	}
	if len(rows) == 0 {
		return settled, nil
	}
	failpoint.At("scheduler.rescued")
	batch := make([]Trigger, len(rows))
	for i, r := range rows {
		batch[i] = Trigger{
			ID: orZero(r.ConnectorID), Type: orZero(r.Type), UserID: orZero(r.UserID), Scope: orZero(r.Scope), ScopeID: r.ScopeID,
			Config: r.Config, State: r.State, Listing: r.Listing, ConfigVersion: orZero(r.ConfigVersion), Session: orZero(r.RunID), Reason: "rescue",
			DueAt: orZero(r.DispatchedAt), DispatchedAt: orZero(r.DispatchedAt), claimedAt: time.Now(), rescued: orZero(r.LostRun),
		}
		s.dispatcher.traceEnd(ctx, tracing.Rescue, batch[i].rescued, batch[i].ID, string(lifecycle.WorkerLost))
		s.metrics.rescued.WithLabelValues(batch[i].Type).Inc()
		telemetry.OfRun(s.log, batch[i].ID, batch[i].rescued.String(), batch[i].Type).Warn(
			"the worker was lost; its lease has run out", "event", telemetry.Failed)
	}
	s.dispatcher.publish(ctx, batch)
	return settled + len(rows), nil
}
