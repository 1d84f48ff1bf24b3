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

// runOwners says whose runs sessions are.
func runOwners(pool *pgxpool.Pool) deadletter.Owners {
	return func(ctx context.Context, sessions []uuid.UUID) (map[uuid.UUID]int32, error) {
		rows, err := dbgen.New(pool).SessionConnectors(ctx, sessions)
		owners := make(map[uuid.UUID]int32, len(rows))
		for _, row := range rows {
			owners[row.ID] = row.ConnectorID
		}
		return owners, err
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
