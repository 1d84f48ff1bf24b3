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

// Complete ends a run whose documents are all stored: the run to its verdict, the connector to ACTIVE with the
// new state, in one transaction, so that the cursor never runs ahead of the data. It returns Completed, or
// Skipped where there was nothing to store; ErrFenced where the run is not (or no longer) open and whole.
func (l *Lifecycle) Complete(ctx context.Context, session uuid.UUID) (Verdict, error) {
	var verdict Verdict
	err := deadline.Do(ctx, "lifecycle.complete", callTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, l.pool, func(tx pgx.Tx) (err error) {
			verdict, err = l.complete(ctx, l.q.WithTx(tx), session)
			return err
		})
	})
	return verdict, err
}

func (l *Lifecycle) complete(ctx context.Context, q *dbgen.Queries, session uuid.UUID) (Verdict, error) {
	connectorID, err := q.LockConnector(ctx, &session)
	if err != nil {
		return "", fenced("lock the connector", err)
	}
	run, err := q.LockStoredRun(ctx, session)
	if err != nil {
		return "", fenced("lock the run", err)
	}
	if run.Unnamed {
		run.NewState = nil // the cursor would run ahead of a document that is neither stored nor known to have failed
	}
	if run.NewState == nil {
		if _, err := advance(ctx, q, connectorID, session); err != nil {
			return "", err
		}
	}
	verdict := Completed
	if run.Documents == 0 {
		verdict = Skipped
	}
	if err := q.EndRun(ctx, dbgen.EndRunParams{Session: session, Verdict: string(verdict)}); err != nil {
		return "", fmt.Errorf("end the run: %w", err)
	}
	err = q.Activate(ctx, dbgen.ActivateParams{
		ConnectorID: connectorID, Session: &session, NewState: run.NewState, Analyzed: run.Analyzed,
	})
	if err != nil {
		return "", fmt.Errorf("activate the connector: %w", err)
	}
	return verdict, nil
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
