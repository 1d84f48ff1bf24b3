package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

const queryTimeout = 10 * time.Second

// Why a letter cannot be replayed.
var (
	ErrNobodys  = errors.New("it names no connector")
	ErrGone     = errors.New("its connector was deleted")
	ErrDisabled = errors.New("its connector is disabled")
)

// Resolve fills in the connector of those letters that name only the session of a run.
func Resolve(ctx context.Context, pool *pgxpool.Pool, letters []Letter) error {
	var sessions []uuid.UUID
	for _, l := range letters {
		if session, err := uuid.Parse(l.Session); err == nil && l.ConnectorID == 0 {
			sessions = append(sessions, session)
		}
	}
	if len(sessions) == 0 {
		return nil
	}
	rows, err := deadline.Get(ctx, "deadletter.sessions", queryTimeout,
		func(ctx context.Context) ([]dbgen.SessionConnectorsRow, error) {
			return dbgen.New(pool).SessionConnectors(ctx, sessions)
		})
	if err != nil {
		return fmt.Errorf("ask whose the sessions are: %w", err)
	}
	owners := make(map[uuid.UUID]int32, len(rows))
	for _, row := range rows {
		owners[row.ID] = row.ConnectorID
	}
	for i := range letters {
		if session, err := uuid.Parse(letters[i].Session); err == nil && letters[i].ConnectorID == 0 {
			letters[i].ConnectorID = owners[session]
		}
	}
	return nil
}

// Replay makes the connector of letters due now, and forgets the version tokens of their documents, so that they are
// fetched again: with a source that sends only what has changed, too. Both are one transaction: a run that picks the
// trigger up reads documents without tokens. A sync in flight is followed by another. Done twice it asks twice, and
// changes nothing else. It returns when the sync was asked for, or ErrNobodys, ErrGone or ErrDisabled.
func Replay(ctx context.Context, pool *pgxpool.Pool, connectorID int32, letters []Letter) (at time.Time, err error) {
	if connectorID == 0 {
		return at, ErrNobodys
	}
	p := dbgen.ForgetTokensParams{ConnectorID: connectorID, SourceIds: []string{}}
	for _, l := range letters {
		if l.SourceID != "" && !strings.Contains(l.SourceID, "\x00") { // no document has an id that Postgres refuses
			p.SourceIds = append(p.SourceIds, l.SourceID)
		}
	}
	err = deadline.Do(ctx, "deadletter.replay", queryTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
			q := dbgen.New(tx)
			if at, err = q.TriggerConnector(ctx, dbgen.TriggerConnectorParams{ID: connectorID}); err != nil {
				return err
			}
			_, err = q.ForgetTokens(ctx, p)
			return err
		})
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return at, ErrGone
	case postgres.Constraint(err) == "connectors_trigger_disabled":
		return at, ErrDisabled
	case err != nil:
		return at, fmt.Errorf("replay for connector %d: %w", connectorID, err)
	}
	return at, err
}
