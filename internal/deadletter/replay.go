package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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

// Owners asks Postgres whose runs some sessions are. What is no run is left out.
type Owners func(ctx context.Context, sessions []uuid.UUID) (map[uuid.UUID]int32, error)

// Resolve fills in the connector of those letters that name only the session of a run.
func Resolve(ctx context.Context, owners Owners, letters []Letter) error {
	var sessions []uuid.UUID
	for _, l := range letters {
		if session, err := uuid.Parse(l.Session); err == nil && l.ConnectorID == 0 {
			sessions = append(sessions, session)
		}
	}
	if len(sessions) == 0 {
		return nil
	}
	found, err := deadline.Get(ctx, "deadletter.sessions", queryTimeout,
		func(ctx context.Context) (map[uuid.UUID]int32, error) { return owners(ctx, sessions) })
	if err != nil {
		return fmt.Errorf("ask whose the sessions are: %w", err)
	}
	for i := range letters {
		if session, err := uuid.Parse(letters[i].Session); err == nil && letters[i].ConnectorID == 0 {
			letters[i].ConnectorID = found[session]
		}
	}
	return nil
}

// FetchAgain makes a connector due now, and forgets the version tokens of some of its documents, in one transaction. It
// returns pgx.ErrNoRows where there is no such connector.
type FetchAgain func(ctx context.Context, connectorID int32, sourceIDs []string) (time.Time, error)

// Replay makes the connector of letters due now, and forgets the version tokens of their documents, so that they are
// fetched again: with a source that sends only what has changed, too. Both are one transaction: a run that picks the
// trigger up reads documents without tokens. A sync in flight is followed by another. Done twice it asks twice, and
// changes nothing else. It returns when the sync was asked for, or ErrNobodys, ErrGone or ErrDisabled. The caller removes
// the letters afterwards.
func Replay(ctx context.Context, fetch FetchAgain, connectorID int32, letters []Letter) (time.Time, error) {
	if connectorID == 0 {
		return time.Time{}, ErrNobodys
	}
	sourceIDs := []string{}
	for _, l := range letters {
		if l.SourceID != "" && !strings.Contains(l.SourceID, "\x00") { // no document has an id that Postgres refuses
			sourceIDs = append(sourceIDs, l.SourceID)
		}
	}
	at, err := deadline.Get(ctx, "deadletter.replay", queryTimeout,
		func(ctx context.Context) (time.Time, error) { return fetch(ctx, connectorID, sourceIDs) })
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return at, ErrGone
	case postgres.Constraint(err) == "connectors_trigger_disabled":
		return at, ErrDisabled
	case err != nil:
		return at, fmt.Errorf("replay for connector %d: %w", connectorID, err)
	}
	return at, nil
}
