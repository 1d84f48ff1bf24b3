// Package lifecycle moves connectors through their states. Each move is one guarded statement that names the
// status it comes from and the session; what follows from a move (the run's verdict, the failure policy, the
// next due time) is the database's own trigger's work, so that it is the same for whoever moves.
//
//	ACTIVE ──due──▶ PENDING ──PickUp──▶ SYNCING ──Complete──▶ ACTIVE
//	                                     │  └──Fail──▶ ERROR ──backoff over──▶ PENDING
//	                                     └──lease runs out──▶ PENDING, under a new session
//	PENDING, SYNCING ──Release──▶ ACTIVE, due now
//	any ──Disable──▶ DISABLED ──Enable──▶ ACTIVE
//
// Every method returns ErrFenced where the session is no longer the connector's: the caller is a stale writer,
// and nothing was changed.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/lifecycle/internal/dbgen"
)

// ErrFenced says that the session is not the connector's any more, or that its status has moved on.
var ErrFenced = errors.New("the session is no longer current")

// ErrUnchanged says that a connector does not exist or already stands where it was asked to go.
var ErrUnchanged = errors.New("nothing to change")

// callTimeout bounds every call to Postgres.
const callTimeout = 5 * time.Second

// maxMessageBytes bounds what is kept of an error message.
const maxMessageBytes = 2000

// Lifecycle moves connectors. It is safe for concurrent use.
type Lifecycle struct {
	pool *pgxpool.Pool
	q    *dbgen.Queries
}

// New makes a Lifecycle on a pool.
func New(pool *pgxpool.Pool) *Lifecycle {
	return &Lifecycle{pool: pool, q: dbgen.New(pool)}
}

// PickUp moves a connector from PENDING to SYNCING and takes its lease for the given time. It also succeeds
// where this owner's lease already stands, so that a commit whose answer was lost can be repeated.
func (l *Lifecycle) PickUp(
	ctx context.Context, connectorID int32, session, owner uuid.UUID, lease time.Duration,
) error {
	return guarded(ctx, "lifecycle.pick_up", func(ctx context.Context) (int64, error) {
		return l.q.PickUp(ctx, dbgen.PickUpParams{
			ConnectorID: connectorID, Session: &session, LeaseOwner: &owner, Lease: lease,
		})
	})
}

// Renew prolongs a lease. It may revive one that has run out and that nobody claimed.
func (l *Lifecycle) Renew(ctx context.Context, session, owner uuid.UUID, lease time.Duration) error {
	return guarded(ctx, "lifecycle.renew", func(ctx context.Context) (int64, error) {
		return l.q.Renew(ctx, dbgen.RenewParams{Session: &session, LeaseOwner: &owner, Lease: lease})
	})
}

// Drain gives up the lease because every document is published; seq is the place of sync completed in the
// document stream. ErrFenced means that the run is already complete (or over), which is no error.
func (l *Lifecycle) Drain(ctx context.Context, session, owner uuid.UUID, seq uint64) error {
	return deadline.Do(ctx, "lifecycle.drain", callTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, l.pool, func(tx pgx.Tx) error {
			q := l.q.WithTx(tx)
			dropped, err := q.DropLease(ctx, dbgen.DropLeaseParams{Session: &session, LeaseOwner: &owner})
			if err != nil {
				return fmt.Errorf("drop the lease: %w", err)
			}
			if dropped == 0 {
				return ErrFenced
			}
			if err := q.MarkDraining(ctx, dbgen.MarkDrainingParams{Session: session, DrainSeq: int64(seq)}); err != nil {
				return fmt.Errorf("mark the run as draining: %w", err)
			}
			return nil
		})
	})
}

// Release hands a connector back: ACTIVE, due now, its run superseded, no failure counted.
func (l *Lifecycle) Release(ctx context.Context, session uuid.UUID) error {
	return guarded(ctx, "lifecycle.release", func(ctx context.Context) (int64, error) {
		return l.q.Release(ctx, &session)
	})
}

// Fail moves a connector from SYNCING to ERROR, or to DISABLED after max_retries failures in a row.
func (l *Lifecycle) Fail(ctx context.Context, session uuid.UUID, kind Failure, message string) error {
	message, reason := clean(message), string(kind)
	return guarded(ctx, "lifecycle.fail", func(ctx context.Context) (int64, error) {
		return l.q.Fail(ctx, dbgen.FailParams{Session: &session, Kind: &reason, Message: &message})
	})
}

// Disable switches a connector off and ends its run. ErrUnchanged where it is off already or does not exist.
func (l *Lifecycle) Disable(ctx context.Context, connectorID int32) error {
	return changed(guarded(ctx, "lifecycle.disable", func(ctx context.Context) (int64, error) {
		return l.q.Disable(ctx, connectorID)
	}))
}

// Enable switches a connector on, plans it from now and forgets its failures. ErrUnchanged where it is not
// DISABLED or does not exist.
func (l *Lifecycle) Enable(ctx context.Context, connectorID int32) error {
	return changed(guarded(ctx, "lifecycle.enable", func(ctx context.Context) (int64, error) {
		return l.q.Enable(ctx, connectorID)
	}))
}

func guarded(ctx context.Context, name string, move func(context.Context) (int64, error)) error {
	moved, err := deadline.Get(ctx, name, callTimeout, move)
	if errors.Is(err, context.DeadlineExceeded) {
		return err // it carries the name
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if moved == 0 {
		return ErrFenced
	}
	return nil
}

func changed(err error) error {
	if errors.Is(err, ErrFenced) {
		return ErrUnchanged
	}
	return err
}

// clean makes text storable: valid UTF-8 without NUL, bounded.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if len(text) > maxMessageBytes {
		text = strings.ToValidUTF8(text[:maxMessageBytes], "") + "…"
	}
	return text
}
