package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/lifecycle/internal/dbgen"
)

// Ended is a run that was completed.
type Ended struct {
	ConnectorID int32
	Type        string
	Verdict     Verdict
}

// Complete ends a run whose documents are all stored: the run to its verdict, the connector to ACTIVE with the
// new state, in one transaction, so that the cursor never runs ahead of the data. Its verdict is Completed,
// or Skipped where there was nothing to store. It returns ErrFenced where the run is not (or no longer) open and whole.
func (l *Lifecycle) Complete(ctx context.Context, session uuid.UUID) (Ended, error) {
	var ended Ended
	err := deadline.Do(ctx, "lifecycle.complete", callTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, l.pool, func(tx pgx.Tx) (err error) {
			ended, err = l.complete(ctx, l.q.WithTx(tx), session)
			return err
		})
	})
	return ended, err
}

func (l *Lifecycle) complete(ctx context.Context, q *dbgen.Queries, session uuid.UUID) (Ended, error) {
	connector, err := q.LockConnector(ctx, &session)
	if err != nil {
		return Ended{}, fenced("lock the connector", err)
	}
	run, err := q.LockStoredRun(ctx, session)
	if err != nil {
		return Ended{}, fenced("lock the run", err)
	}
	if run.Unnamed {
		run.NewState = nil // the cursor would run ahead of a document that is neither stored nor known to have failed
	}
	if run.NewState == nil {
		if _, err := advance(ctx, q, connector.ID, session); err != nil {
			return Ended{}, err
		}
	}
	verdict := Completed
	if run.Documents == 0 {
		verdict = Skipped
	}
	if err := q.EndRun(ctx, dbgen.EndRunParams{Session: session, Verdict: string(verdict)}); err != nil {
		return Ended{}, fmt.Errorf("end the run: %w", err)
	}
	err = q.Activate(ctx, dbgen.ActivateParams{
		ConnectorID: connector.ID, Session: &session, NewState: run.NewState, Analyzed: run.Analyzed,
	})
	if err != nil {
		return Ended{}, fmt.Errorf("activate the connector: %w", err)
	}
	return Ended{ConnectorID: connector.ID, Type: connector.Type, Verdict: verdict}, nil
}

// StoredRuns lists open runs whose documents are all stored: some process died before it could complete them.
func (l *Lifecycle) StoredRuns(ctx context.Context) ([]uuid.UUID, error) {
	return deadline.Get(ctx, "lifecycle.stored_runs", callTimeout, l.q.StoredRuns)
}

func fenced(what string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrFenced
	}
	return fmt.Errorf("%s: %w", what, err)
}
