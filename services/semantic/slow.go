package semantic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// answerTimeout bounds the question whether Postgres is there. A server that is away, frozen or being replaced does not commit
	// a write so soon.
	answerTimeout = 2 * time.Second
	slowPause     = time.Minute
)

var (
	// errSlow says that Postgres is there, and could not store so much in time. It is no wait: repeated it would be as slow.
	errSlow = errors.New("it takes too long to store")
	// errLarge says that messages replace or delete too much to be stored together.
	errLarge = errors.New("too much to store at once")
)

// slow tells a store that is too much for Postgres from a Postgres that is away. Both end at a deadline, ours or the server's own.
// Only a server that commits a small write right after, on another connection, was there; and not one that did not answer somebody
// else of this process meanwhile, and has come back.
func (s *Semantic) slow(ctx context.Context, try lifecycle.Try, no int64, began time.Time, err error) error {
	var pg *pgconn.PgError
	ended := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &pg) && pg.Code == "57014" // statement_timeout
	if !ended || ctx.Err() != nil {
		return err
	}
	late := deadline.Do(ctx, "semantic.answers", answerTimeout, func(ctx context.Context) error {
		return s.queries.WriteNothing(ctx, dbgen.WriteNothingParams{RunID: try.Run, TryID: try.ID, No: no})
	})
	if late != nil {
		s.away.Store(time.Now().UnixNano())
	}
	if s.away.Load() >= began.UnixNano() {
		return err
	}
	return fmt.Errorf("%w: %w", errSlow, err)
}
