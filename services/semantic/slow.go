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
	// answerTimeout bounds the question whether Postgres answers. A server that is away, frozen or being replaced commits no write
	// within it.
	answerTimeout = 2 * time.Second
	slowPause     = time.Minute
)

var (
	// errSlow says that Postgres answers, and could not store the message in time. It is no wait: a repetition would be as slow.
	errSlow = errors.New("it takes too long to store")
	// errLarge says that the messages replace or delete too many chunks to be stored together.
	errLarge = errors.New("too much to store at once")
)

// asTooSlow distinguishes a store that is too large for Postgres from a Postgres that is away. Both end at a deadline, ours or the
// server's own. It returns errSlow only where the server commits a small write right after, on another connection, and has answered
// every other question of this process meanwhile.
func (s *Semantic) asTooSlow(ctx context.Context, try lifecycle.Try, no int64, began time.Time, err error) error {
	var pg *pgconn.PgError
	ended := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &pg) && pg.Code == "57014" // statement_timeout
	if !ended || ctx.Err() != nil {
		return err
	}
	if !s.answers(ctx, try, no, began) {
		return err
	}
	return fmt.Errorf("%w: %w", errSlow, err)
}

// answers says whether Postgres answers a small write of a try now, and has answered every other since began.
func (s *Semantic) answers(ctx context.Context, try lifecycle.Try, no int64, began time.Time) bool {
	late := deadline.Do(ctx, "semantic.answers", answerTimeout, func(ctx context.Context) error {
		return s.queries.WriteNothing(ctx, dbgen.WriteNothingParams{RunID: try.Run, TryID: try.ID, No: no})
	})
	if late != nil {
		s.unansweredAt.Store(time.Now().UnixNano())
	}
	return s.unansweredAt.Load() < began.UnixNano()
}
