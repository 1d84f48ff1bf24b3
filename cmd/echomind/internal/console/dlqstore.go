package console

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/internal/postgres"
)

// letterRuns says which runs sessions are.
func letterRuns(pool *pgxpool.Pool) deadletter.Runs {
	return func(ctx context.Context, sessions []uuid.UUID) (map[uuid.UUID]deadletter.Run, error) {
		rows, err := dbgen.New(pool).LetterRuns(ctx, sessions)
		runs := make(map[uuid.UUID]deadletter.Run, len(rows))
		for _, row := range rows {
			runs[row.ID] = deadletter.Run{ConnectorID: row.ConnectorID, HasParameters: row.HasParameters}
		}
		return runs, err
	}
}

// fetchAgain has documents of a connector fetched again.
func fetchAgain(pool *pgxpool.Pool) deadletter.FetchAgain {
	return func(ctx context.Context, connectorID int32, sourceIDs []string) (at time.Time, err error) {
		err = postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
			q := dbgen.New(tx)
			if at, err = q.TriggerConnector(ctx, dbgen.TriggerConnectorParams{ID: connectorID}); err != nil {
				return err
			}
			_, err = q.ForgetTokens(ctx, dbgen.ForgetTokensParams{ConnectorID: connectorID, SourceIds: sourceIDs})
			return err
		})
		return at, err
	}
}
