package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/sdk/lifecycle/internal/dbgen"
)

// Advance makes the state of the last checkpoint before which everything is stored the connector's, while the run goes
// on, and says whether there was one. ErrFenced where the run is over.
func (l *Lifecycle) Advance(ctx context.Context, session uuid.UUID) (bool, error) {
	moved := false
	err := deadline.Do(ctx, "lifecycle.advance", callTimeout, func(ctx context.Context) error {
		// Looked at without a lock first: while a message is late, every store asks.
		if no, err := reached(ctx, l.q, session); no == 0 || err != nil {
			return err
		}
		return postgres.Tx(ctx, l.pool, func(tx pgx.Tx) error {
			q := l.q.WithTx(tx)
			connectorID, err := lockOpen(ctx, q, session)
			if err == nil {
				moved, err = advance(ctx, q, connectorID, session)
			}
			return err
		})
	})
	return moved, err
}

// CheckpointedRuns lists open runs of which a checkpoint waits for something to be stored, or for Advance.
func (l *Lifecycle) CheckpointedRuns(ctx context.Context) ([]uuid.UUID, error) {
	return deadline.Get(ctx, "lifecycle.checkpointed_runs", callTimeout, l.q.CheckpointedRuns)
}

// lockOpen locks a session's connector and its open run, in this order.
func lockOpen(ctx context.Context, q *dbgen.Queries, session uuid.UUID) (connectorID int32, err error) {
	connector, err := q.LockConnector(ctx, &session)
	if err != nil {
		return 0, fenced("lock the connector", err)
	}
	if _, err = q.LockOpenRun(ctx, session); err != nil {
		return 0, fenced("lock the run", err)
	}
	return connector.ID, nil
}

// advance passes every checkpoint that is reached, of a connector and a run that are locked.
func advance(ctx context.Context, q *dbgen.Queries, connectorID int32, session uuid.UUID) (moved bool, err error) {
	for {
		no, err := reached(ctx, q, session)
		if no == 0 || err != nil {
			return moved, err
		}
		committed, err := q.CommitCheckpoint(ctx, dbgen.CommitCheckpointParams{
			ConnectorID: connectorID, Session: &session, No: no,
		})
		if err != nil {
			return moved, fmt.Errorf("commit checkpoint %d: %w", no, err)
		}
		if committed == 0 {
			return moved, ErrFenced
		}
		failpoint.At("lifecycle.advancing")
		if err := q.PassCheckpoint(ctx, dbgen.PassCheckpointParams{Session: session, No: no}); err != nil {
			return moved, fmt.Errorf("pass checkpoint %d: %w", no, err)
		}
		moved = true
	}
}

// reached is the number of the last checkpoint that is reached and was not passed yet; 0 where there is none.
func reached(ctx context.Context, q *dbgen.Queries, session uuid.UUID) (int64, error) {
	no, err := q.ReachedCheckpoint(ctx, session)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for a checkpoint: %w", err)
	}
	return no, nil
}
