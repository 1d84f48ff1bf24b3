package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	claimTimeout = 8 * time.Second
	queryTimeout = 5 * time.Second
	// mostTurns bounds how often one claim looks behind connectors that are refused. The next look goes on there.
	mostTurns = 100
	// mostBatchBytes is how much the configurations and states of a batch have together, in text. On the wire it may be several
	// times as much. One connector may have 192 KiB.
	mostBatchBytes = 2 << 20
)

// Tick claims and publishes until nothing is due or nothing more may be in flight. A type that fails does not keep the
// others from their turn. It returns an error where Postgres could not be asked; a stream that takes nothing leaves
// everything due.
func (s *Scheduler) Tick(ctx context.Context) error {
	_, err := s.tick(ctx)
	return err
}

// tick is one look, and what it has sent on its way; it says after how long to look again, 0 = not at all.
func (s *Scheduler) tick(ctx context.Context) (again time.Duration, problem error) {
	err := s.lanes.look(ctx, nil)
	s.lanes.wait()
	came := s.lanes.outcome()
	return came.again, errors.Join(err, came.problem)
}

// capOf is how many of a type may be in flight; 0 = no cap.
func (s *Scheduler) capOf(t dbgen.DueTypesRow) int {
	if t.MaxConcurrentSyncs != nil {
		return int(*t.MaxConcurrentSyncs)
	}
	return s.config.MaxConcurrentSyncs
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

	dispatches int32     // how often it is published by now; zero at its first time
	claimedAt  time.Time // by this process's monotonic clock; zero where the message is a repeat
	rescued    uuid.UUID // the session whose worker was lost; zero where none was
	span       tracing.Span
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

// claim claims one batch, and says how many of it leave their place to others: those that are refused and skipped from now on, and
// those whose slots are passed over.
func (s *Scheduler) claim(
	ctx context.Context, tx pgx.Tx, how attempt, connectorType string, limit, batch int,
) (claimed []Trigger, aside int, err error) {
	due := dbgen.LockDueParams{
		Type: connectorType, Cap: int32(limit), Batch: int32(batch), Refused: s.unclaimed.skipped(time.Now()),
		Share: int32(s.config.OwnerSharePercent), MostBytes: mostBatchBytes,
	}
	rows, err := s.queries.WithTx(tx).LockDue(ctx, due)
	if err != nil || len(rows) == 0 {
		return nil, 0, wrap("lock due connectors", err)
	}
	all, err := s.decideDue(ctx, tx, rows)
	if err != nil {
		return nil, 0, err
	}
	refuse := func(d dueNow, err error) error {
		isNew, kept := s.unclaimed.add(d.row.ID, time.Now())
		if isNew {
			s.log.Error("a due connector cannot be claimed and stays due; the others go on", "connector", d.row.ID,
				"type", connectorType, "err", err)
		}
		if kept {
			aside++
		}
		return nil
	}
	keys, all, err := s.findPlaces(ctx, tx, how, all, true, refuse)
	if err != nil {
		return nil, 0, err
	}
	decideKeys(all, keys, true)
	over, noPlace := 0, false // how many run no slot, or wait for a key; whether nothing else is looked for
	set := func(tx pgx.Tx, part []dueNow) error {
		triggers, claims, instead := make([]Trigger, 0, len(part)), make([]claim, 0, len(part)), []*plan(nil)
		var waits parked
		var holds []*putOff
		for _, d := range part {
			r := d.row
			if d.passed != nil {
				instead = append(instead, d.passed)
				continue
			}
			if d.held != nil {
				holds = append(holds, d.held)
				continue
			}
			if d.full != "" {
				waits.ids, waits.keys = append(waits.ids, r.ID), append(waits.keys, d.full)
				continue
			}
			if noPlace {
				continue
			}
			if !d.later.IsZero() {
				instead = append(instead, &plan{ID: r.ID, NextSyncAt: &d.later, DueReason: r.DueReason, SlotAt: r.SlotAt})
				continue
			}
			if tooOld(*r) {
				instead = append(instead, &plan{ID: r.ID, NextSyncAt: &r.NextSyncAt, DueReason: r.DueReason, SlotAt: r.SlotAt})
				signal(s.askWake)
				continue
			}
			s.keyring.claimed(d.keys...)
			t := triggerOf(connectorType, *r)
			triggers = append(triggers, t)
			claims = append(claims, claim{slot: d.slot, ID: r.ID, RunID: t.Session, Asked: r.Asked, Follows: r.Follows, Keys: d.keys})
		}
		if err := s.passOver(ctx, tx, instead); err != nil {
			return err
		}
		if err := s.park(ctx, tx, waits); err != nil {
			return err
		}
		if err := s.hold(ctx, tx, holds); err != nil {
			return err
		}
		over += len(instead) + len(waits.ids) + len(holds)
		if len(claims) == 0 {
			return nil
		}
		text, err := json.Marshal(claims)
		if err != nil {
			return wrap("write the claims", err)
		}
		n, err := s.queries.WithTx(tx).Claim(ctx, dbgen.ClaimParams{Claims: text, Now: part[0].row.Now})
		if err != nil {
			return wrap("set PENDING", err)
		}
		if int(n) != len(claims) {
			s.log.Error("some locked connectors could not be set PENDING; they are claimed when they are due again",
				"type", connectorType, "locked", len(claims), "claimed", n)
		}
		claimed = append(claimed, triggers...)
		return nil
	}
	decided := len(all)
	if err = write(ctx, tx, how, all, set, refuse); err != nil || limit == 0 || over < decided || decided < len(rows) {
		return claimed, aside + over, err
	}
	// What is passed over, or waits for a key, holds no place: a whole batch of the longest due is looked through for more of it.
	due.Cap, due.Batch, noPlace = 0, int32(s.config.ClaimBatch), true
	if rows, err = s.queries.WithTx(tx).LockDue(ctx, due); err != nil {
		return nil, 0, wrap("lock due connectors of a type that has a cap", err)
	}
	if all, err = s.decideDue(ctx, tx, rows); err != nil {
		return nil, 0, err
	}
	if keys, all, err = s.findPlaces(ctx, tx, how, all, false, refuse); err != nil {
		return nil, 0, err
	}
	decideKeys(all, keys, false)
	err = write(ctx, tx, how, all, set, refuse)
	return claimed, aside + over, err
}

// dueNow is a connector that is due, and what its schedule says.
type dueNow struct {
	row    *dbgen.LockDueRow
	slot   slot
	passed *plan     // where no slot that has come runs
	later  time.Time // to catch up with after an outage
	keys   []string  // the concurrency keys in which it has a place
	full   string    // the one of them that has none
	held   *putOff   // by a blackout window
}

// runs says whether it is to be claimed, if its keys have places.
func (d dueNow) runs() bool {
	return d.passed == nil && d.held == nil && d.later.IsZero() && !tooOld(*d.row)
}

// decideKeys gives those that are to be claimed their places of concurrency keys, the longest due first; claims: they are claimed.
func decideKeys(all []dueNow, p *places, claims bool) {
	for i := range all {
		if d := &all[i]; d.row.HasKeys && d.runs() {
			d.keys, d.full = p.take(d.row.ID, claims)
		}
	}
}

func (s *Scheduler) decideDue(ctx context.Context, tx pgx.Tx, rows []dbgen.LockDueRow) ([]dueNow, error) {
	names := make([]calendarNamed, len(rows))
	for i := range rows {
		names[i] = namedBy(rows[i])
	}
	return some(ctx, s.calendars, s.queries.WithTx(tx), names, func(i int, c calendarOf) (dueNow, int) {
		d := dueNow{row: &rows[i]}
		d.slot, d.passed = slotOf(rows[i], c)
		d.later = later(rows[i], d.slot, s.outage.since(rows[i].Now), s.config.CatchUpWindow)
		if d.passed == nil {
			d.held = heldOf(rows[i], d.slot, c)
		}
		d.slot.next = nil // it holds its calendar
		lines := len(d.slot.Passed)
		if d.passed != nil {
			lines += len(d.passed.Passed)
		}
		return d, lines
	})
}

// passOver writes down when connectors are due next if none of their slots that have come runs.
func (s *Scheduler) passOver(ctx context.Context, tx pgx.Tx, plans []*plan) error {
	if len(plans) == 0 {
		return nil
	}
	text, err := json.Marshal(plans)
	if err != nil {
		return wrap("write what is passed over", err)
	}
	if _, err = s.queries.WithTx(tx).Plan(ctx, text); err != nil {
		return wrap("pass slots over", err)
	}
	var bad []plan
	var holds []*putOff
	for _, p := range plans {
		if p.held != nil {
			holds = append(holds, p.held)
		}
		if p.Bad {
			bad = append(bad, *p)
		}
	}
	s.tellBad(bad)
	return s.hold(ctx, tx, holds)
}

// claim is what one claim writes down, as moves.claim wants it.
type claim struct {
	ID    int32     `json:"id"`
	RunID uuid.UUID `json:"run_id"`
	// Asked says that it is for the run that was asked for with parameters.
	Asked bool `json:"asked,omitempty"`
	// Follows says that it runs after others.
	Follows bool `json:"follows,omitempty"`
	// Keys are the concurrency keys in which it has a place.
	Keys []string `json:"keys,omitempty"`
	slot
}

func triggerOf(connectorType string, r dbgen.LockDueRow) Trigger {
	return Trigger{
		ID: r.ID, Type: connectorType, UserID: r.UserID, Scope: r.Scope, ScopeID: r.ScopeID, Config: r.Config, State: r.State, Listing: r.Listing,
		ConfigVersion: r.ConfigVersion, Session: uuid.New(), Reason: r.DueReason, DueAt: r.NextSyncAt, DispatchedAt: r.Now,
		claimedAt: time.Now(),
	}
}
