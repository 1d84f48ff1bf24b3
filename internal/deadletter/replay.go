package deadletter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

const (
	queryTimeout = 10 * time.Second
	// maxSourceID is how many bytes a document's id may have.
	maxSourceID = 2048
)

// Why a letter cannot be replayed.
var (
	ErrNobodys  = errors.New("it names no connector")
	ErrGone     = errors.New("its connector was deleted")
	ErrDisabled = errors.New("its connector is disabled")
	// ErrParameters: another sync would be of all that the connector is configured for.
	ErrParameters = errors.New("its run was asked for with parameters")
)

// Run is what Postgres knows of the run that a letter is of.
type Run struct {
	ConnectorID   int32
	HasParameters bool
}

// Runs asks Postgres which runs some sessions are. What is no run is left out.
type Runs func(ctx context.Context, sessions []uuid.UUID) (map[uuid.UUID]Run, error)

// Resolve fills in the connector of those letters that name only the session of a run, and of triggers whether their run had parameters.
func Resolve(ctx context.Context, runs Runs, letters []Letter) error {
	asked := map[uuid.UUID][]*Letter{}
	for i := range letters {
		l := &letters[i]
		if session, err := uuid.Parse(l.Session); err == nil && (l.ConnectorID == 0 || strings.HasPrefix(l.Subject, syncPrefix)) {
			asked[session] = append(asked[session], l)
		}
	}
	sessions := slices.Collect(maps.Keys(asked))
	if len(sessions) == 0 {
		return nil
	}
	found, err := deadline.Get(ctx, "deadletter.sessions", queryTimeout,
		func(ctx context.Context) (map[uuid.UUID]Run, error) { return runs(ctx, sessions) })
	if err != nil {
		return fmt.Errorf("ask whose the sessions are: %w", err)
	}
	for session, of := range asked {
		run := found[session]
		for _, l := range of {
			if l.ConnectorID == 0 {
				l.ConnectorID = run.ConnectorID
			}
			l.HasParameters = run.HasParameters && run.ConnectorID == l.ConnectorID
		}
	}
	return nil
}

// FetchAgain makes a connector due now, and forgets the version tokens of some of its documents, in one transaction. It
// returns pgx.ErrNoRows where there is no such connector.
type FetchAgain func(ctx context.Context, connectorID int32, sourceIDs []string) (time.Time, error)

// DocumentOf is the document that a letter names; empty where it names none, or what can be none: no document has an id that Postgres refuses.
func DocumentOf(l Letter) string {
	if len(l.SourceID) > maxSourceID || strings.Contains(l.SourceID, "\x00") || !utf8.ValidString(l.SourceID) {
		return ""
	}
	return l.SourceID
}

// Replay makes the connector of letters due now, and forgets the version tokens of their documents, so that they are
// fetched again: with a source that sends only what has changed, too. Both are one transaction: a run that picks the
// trigger up reads documents without tokens. A sync in flight is followed by another. Done twice it asks twice, and
// changes nothing else. It returns when the sync was asked for, or ErrNobodys, ErrGone, ErrDisabled or ErrParameters. The
// caller removes the letters afterwards.
func Replay(ctx context.Context, fetch FetchAgain, connectorID int32, letters []Letter) (time.Time, error) {
	if connectorID == 0 {
		return time.Time{}, ErrNobodys
	}
	sourceIDs := []string{}
	for _, l := range letters {
		if l.HasParameters {
			return time.Time{}, ErrParameters
		}
		if document := DocumentOf(l); document != "" {
			sourceIDs = append(sourceIDs, document)
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
