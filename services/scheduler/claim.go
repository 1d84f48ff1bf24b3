package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	claimTimeout = 8 * time.Second
	queryTimeout = 5 * time.Second
	// mostTurns bounds how often one claim looks behind connectors that are refused. The next look goes on there.
	mostTurns = 100
)

// Tick claims and publishes until nothing is due or nothing more may be in flight. A type that fails does not keep the
// others from their turn. It returns an error where Postgres could not be asked; a stream that takes nothing leaves
// everything due.
func (s *Scheduler) Tick(ctx context.Context) error {
	_, err := s.tick(ctx)
	return err
}

// tick says after how long to look again because something stayed due that could not be claimed, 0 = not at all: the cap of its type
// is full, somebody holds its row, or its owner's turn has not come.
func (s *Scheduler) tick(ctx context.Context) (again time.Duration, problem error) {
	done := map[string]bool{} // types that have nothing more to claim in this tick
	room := 0                 // asked for again after each publish
	unanswered := 0           // claims in a row
	pipe := &pipeline{publish: s.dispatcher.publish}
	defer pipe.wait()
	for ctx.Err() == nil {
		types, err := deadline.Get(ctx, "scheduler.due_types", queryTimeout,
			func(ctx context.Context) ([]dbgen.DueTypesRow, error) { return s.queries.DueTypes(ctx, nil) })
		if err != nil {
			return again, errors.Join(problem, fmt.Errorf("ask what is due: %w", err))
		}
		dispatched := 0
		for _, t := range types {
			if done[t.Name] {
				continue
			}
			s.log.Debug("looking for what is due", "event", telemetry.Checking, "type", t.Name)
			if room == 0 {
				if room = s.dispatcher.room(ctx) - pipe.size; room <= 0 {
					pipe.wait() // what is on its way may be counted already
					room = s.dispatcher.room(ctx)
				}
				if room == 0 {
					return again, problem
				}
			}
			limit := s.capOf(t)
			n, err := s.dispatch(ctx, pipe, t.Name, limit, room)
			problem = errors.Join(problem, err)
			switch {
			case n > 0:
				s.turns.found(t.Name)
				dispatched, room = dispatched+n, 0
			case limit > 0 && err == nil && s.turnsOn(ctx, t.Name):
				done[t.Name], again = true, turnEvery
			default:
				done[t.Name], again = true, cmp.Or(again, pollEvery)
			}
			unanswered++
			if !postgres.Unavailable(err) {
				unanswered = 0
			}
			// One claim without an answer may be its type's; two are Postgres's. A type that published nothing has not asked the
			// stream: the next one does.
			if n > 0 && s.dispatcher.waiting() || unanswered > 1 {
				return again, problem
			}
		}
		if dispatched == 0 {
			return again, problem
		}
	}
	return again, problem
}

// capOf is how many of a type may be in flight; 0 = no cap.
func (s *Scheduler) capOf(t dbgen.DueTypesRow) int {
	if t.MaxConcurrentSyncs != nil {
		return int(*t.MaxConcurrentSyncs)
	}
	return s.config.MaxConcurrentSyncs
}

// dispatch claims one batch of a type, of at most room, and hands it on to be published.
func (s *Scheduler) dispatch(ctx context.Context, pipe *pipeline, kind string, limit, room int) (int, error) {
	batch, err := s.Claim(ctx, kind, limit, min(s.config.ClaimBatch, room))
	if err != nil {
		return 0, fmt.Errorf("claim connectors of type %s: %w", kind, err)
	}
	if len(batch) == 0 {
		return 0, nil
	}
	s.metrics.claimed.WithLabelValues(kind).Add(float64(len(batch)))
	failpoint.At("scheduler.claimed")
	pipe.send(ctx, batch)
	return len(batch), nil
}

// Trigger is one claimed connector: what its message says.
type Trigger struct {
	ID            int32
	Type          string
	UserID        int32
	Scope         string
	ScopeID       *string
	Config        []byte
	State         []byte
	Listing       []byte // empty outside a listing that takes several runs
	ConfigVersion int64
	Session       uuid.UUID
	Reason        string
	DueAt         time.Time
	DispatchedAt  time.Time

	claimedAt time.Time // by this process's monotonic clock; zero where the message is a repeat
	rescued   uuid.UUID // the session whose worker was lost; zero where none was
	span      tracing.Span
}

// Claim takes up to batch due connectors of a type, the longest due first, in one transaction: each gets a new session and an
// open run. limit caps how many of the type are in flight, and then the places go from owner to owner; 0 = no cap. A row that cannot be claimed stays due, is said once,
// and leaves its place to the next; it is tried again later.
func (s *Scheduler) Claim(ctx context.Context, connectorType string, limit, batch int) ([]Trigger, error) {
	for turn := 1; ; turn++ {
		var claimed []Trigger
		refused := 0
		err := deadline.Do(ctx, "scheduler.claim", claimTimeout, func(ctx context.Context) error {
			return s.batch(ctx, func(tx pgx.Tx, how attempt) (err error) {
				claimed, refused, err = s.claim(ctx, tx, how, connectorType, min(limit, math.MaxInt32), batch)
				failpoint.At("scheduler.claiming")
				return err
			})
		})
		if err != nil {
			return nil, err
		}
		if len(claimed) > 0 || refused == 0 || turn == mostTurns {
			for _, t := range claimed {
				s.unclaimed.forget(t.ID)
			}
			return claimed, nil
		}
	}
}

// claim claims one batch, and says how many of it are refused and skipped from now on.
func (s *Scheduler) claim(
	ctx context.Context, tx pgx.Tx, how attempt, connectorType string, limit, batch int,
) (claimed []Trigger, refused int, err error) {
	rows, err := s.queries.WithTx(tx).LockDue(ctx, dbgen.LockDueParams{
		Type: connectorType, Cap: int32(limit), Batch: int32(batch), Refused: s.unclaimed.skipped(time.Now()),
		Share: int32(s.config.OwnerSharePercent),
	})
	if err != nil || len(rows) == 0 {
		return nil, 0, wrap("lock due connectors", err)
	}
	set := func(tx pgx.Tx, part []dbgen.LockDueRow) error {
		triggers, claims := make([]Trigger, len(part)), make([]claim, len(part))
		for i, r := range part {
			triggers[i] = triggerOf(connectorType, r)
			claims[i] = claim{slot: slotOf(r), ID: r.ID, RunID: triggers[i].Session}
		}
		all, err := json.Marshal(claims)
		if err != nil {
			return wrap("write the claims", err)
		}
		n, err := s.queries.WithTx(tx).Claim(ctx, dbgen.ClaimParams{Claims: all, Now: part[0].Now})
		if err != nil {
			return wrap("set PENDING", err)
		}
		if int(n) != len(part) {
			s.log.Error("some locked connectors could not be set PENDING; they are claimed when they are due again",
				"type", connectorType, "locked", len(part), "claimed", n)
		}
		claimed = append(claimed, triggers...)
		return nil
	}
	err = write(ctx, tx, how, rows, set, func(r dbgen.LockDueRow, err error) error {
		isNew, kept := s.unclaimed.add(r.ID, time.Now())
		if isNew {
			s.log.Error("a due connector cannot be claimed and stays due; the others go on", "connector", r.ID,
				"type", connectorType, "err", err)
		}
		if kept {
			refused++
		}
		return nil
	})
	return claimed, refused, err
}

// claim is what one claim writes down, as moves.claim wants it.
type claim struct {
	ID    int32     `json:"id"`
	RunID uuid.UUID `json:"run_id"`
	slot
}

func triggerOf(connectorType string, r dbgen.LockDueRow) Trigger {
	return Trigger{
		ID: r.ID, Type: connectorType, UserID: r.UserID, Scope: r.Scope, ScopeID: r.ScopeID, Config: r.Config, State: r.State, Listing: r.Listing,
		ConfigVersion: r.ConfigVersion, Session: uuid.New(), Reason: r.DueReason, DueAt: r.NextSyncAt, DispatchedAt: r.Now,
		claimedAt: time.Now(),
	}
}
