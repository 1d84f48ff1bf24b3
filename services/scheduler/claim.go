package scheduler

import (
	"context"
	"errors"
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

const (
	claimTimeout = 8 * time.Second
	queryTimeout = 5 * time.Second
)

// Tick plans what cron says, then claims and publishes until nothing is due or nothing more may be in flight. A
// type that fails does not keep the others from their turn. It returns an error where Postgres could not be asked;
// a stream that takes nothing leaves everything due.
func (s *Scheduler) Tick(ctx context.Context) error {
	problem := s.plan(ctx)
	for ctx.Err() == nil {
		types, err := deadline.Get(ctx, "scheduler.due_types", queryTimeout,
			func(ctx context.Context) ([]dbgen.DueTypesRow, error) { return s.queries.DueTypes(ctx, nil) })
		if err != nil {
			return errors.Join(problem, fmt.Errorf("ask what is due: %w", err))
		}
		dispatched := 0
		for _, t := range types {
			s.log.Debug("looking for what is due", "event", telemetry.Checking, "type", t.Name)
			room := s.dispatcher.room(ctx)
			if room == 0 {
				return problem
			}
			n, err := s.dispatch(ctx, t, room)
			problem = errors.Join(problem, err)
			dispatched += n
			if s.dispatcher.waiting() {
				return problem
			}
		}
		if dispatched == 0 || problem != nil {
			return problem
		}
	}
	return problem
}

// dispatch claims one batch of a type, of at most room, and publishes it.
func (s *Scheduler) dispatch(ctx context.Context, t dbgen.DueTypesRow, room int) (int, error) {
	limit := s.config.MaxConcurrentSyncs
	if t.MaxConcurrentSyncs != nil {
		limit = int(*t.MaxConcurrentSyncs)
	}
	batch, err := s.Claim(ctx, t.Name, limit, min(s.config.ClaimBatch, room))
	if err != nil {
		return 0, fmt.Errorf("claim connectors of type %s: %w", t.Name, err)
	}
	s.metrics.claimed.WithLabelValues(t.Name).Add(float64(len(batch)))
	failpoint.At("scheduler.claimed")
	s.dispatcher.publish(ctx, t.Name, batch)
	return len(batch), nil
}

// Trigger is one claimed connector: what its message says.
type Trigger struct {
	ID            int32
	UserID        int32
	Scope         string
	ScopeID       *string
	Config        []byte
	State         []byte
	ConfigVersion int64
	Session       uuid.UUID
	Reason        string
	DueAt         time.Time
	DispatchedAt  time.Time

	claimedAt time.Time // by this process's monotonic clock; zero where the message is a repeat
	rescued   uuid.UUID // the session whose worker was lost; zero where none was
	span      tracing.Span
}

// Claim takes up to batch due connectors of a type, the longest due first, in one transaction: each gets a new
// session and an open row in the ledger. limit caps how many of the type are in flight, 0 = no cap.
func (s *Scheduler) Claim(ctx context.Context, connectorType string, limit, batch int) ([]Trigger, error) {
	var claimed []Trigger
	err := deadline.Do(ctx, "scheduler.claim", claimTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, s.servers.Pool, func(tx pgx.Tx) (err error) {
			claimed, err = claim(ctx, s.queries.WithTx(tx), connectorType, limit, batch)
			failpoint.At("scheduler.claiming")
			return err
		})
	})
	return claimed, err
}

func claim(ctx context.Context, q *dbgen.Queries, connectorType string, limit, batch int) ([]Trigger, error) {
	jobName, err := topology.SyncSubject(connectorType)
	if err != nil {
		return nil, err
	}
	if limit > 0 {
		free, err := freePlaces(ctx, q, connectorType, limit)
		if err != nil || free <= 0 {
			return nil, err
		}
		batch = min(batch, free)
	}
	rows, err := q.LockDue(ctx, dbgen.LockDueParams{Type: connectorType, Batch: int32(batch)})
	if err != nil || len(rows) == 0 {
		return nil, wrap("lock due connectors", err)
	}

	now := time.Now()
	claimed := make([]Trigger, len(rows))
	runs := dbgen.OpenRunsParams{JobName: jobName}
	missed := dbgen.RecordMissedParams{JobName: jobName}
	for i, r := range rows {
		slot := slotOf(r)
		if m := slot.missed; m.count > 0 {
			missed.Ids = append(missed.Ids, r.ID)
			missed.Firsts = append(missed.Firsts, m.first)
			missed.Lasts = append(missed.Lasts, m.last)
			missed.Counts = append(missed.Counts, m.count)
		}
		claimed[i] = Trigger{
			ID: r.ID, UserID: r.UserID, Scope: r.Scope, ScopeID: r.ScopeID, Config: r.Config, State: r.State,
			ConfigVersion: r.ConfigVersion, Session: uuid.New(), Reason: *r.DueReason,
			DueAt: *r.NextSyncAt, DispatchedAt: r.Now, claimedAt: now,
		}
		runs.Ids = append(runs.Ids, r.ID)
		runs.Sessions = append(runs.Sessions, claimed[i].Session)
		runs.Reasons = append(runs.Reasons, claimed[i].Reason)
		runs.Slots = append(runs.Slots, slot.at)
		runs.DueAts = append(runs.DueAts, claimed[i].DueAt)
		runs.ConfigVersions = append(runs.ConfigVersions, r.ConfigVersion)
	}

	if err := q.CloseStrayRuns(ctx, runs.Ids); err != nil {
		return nil, wrap("close stray runs", err)
	}
	if len(missed.Ids) > 0 {
		if err := q.RecordMissed(ctx, missed); err != nil {
			return nil, wrap("record missed slots", err)
		}
	}
	if err := q.OpenRuns(ctx, runs); err != nil {
		return nil, wrap("open runs", err)
	}
	n, err := q.Claim(ctx, dbgen.ClaimParams{
		Ids: runs.Ids, Sessions: runs.Sessions, Reasons: runs.Reasons, Slots: runs.Slots, Now: claimed[0].DispatchedAt,
	})
	if err == nil && int(n) != len(rows) {
		err = fmt.Errorf("%d of %d locked rows could not be set PENDING", len(rows)-int(n), len(rows))
	}
	return claimed, wrap("set PENDING", err)
}

// freePlaces waits for its turn among the claimers of the type and counts what the cap leaves.
func freePlaces(ctx context.Context, q *dbgen.Queries, connectorType string, limit int) (int, error) {
	if err := q.BoundTransaction(ctx, dbgen.BoundTransactionParams{LockTimeout: "5s", IdleTimeout: "10s"}); err != nil {
		return 0, wrap("bound the transaction", err)
	}
	if err := q.LockType(ctx, connectorType); err != nil {
		return 0, wrap("take the type's turn", err)
	}
	inFlight, err := q.InFlight(ctx, connectorType)
	return limit - int(inFlight), wrap("count what is in flight", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
