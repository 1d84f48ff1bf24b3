package scheduler

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
)

// attempt says how a transaction does something with many rows.
type attempt bool

const (
	// atOnce does it with all rows, in no savepoint. A row that a transaction has locked, and one of its savepoints has written,
	// bears the ids of both: Postgres never takes the old version of such a row out of an index while it reads it, as it does with
	// other rows, and each look would read all that was claimed since the last vacuum.
	atOnce attempt = false
	// inHalves is for rows when one is refused.
	inHalves attempt = true
)

// batch does something with many rows in one transaction; where Postgres refuses one of them, in a second one in halves.
func (s *Scheduler) batch(ctx context.Context, work func(pgx.Tx, attempt) error) error {
	err := postgres.Tx(ctx, s.servers.Pool, func(tx pgx.Tx) error { return work(tx, atOnce) })
	if !postgres.Refused(err) {
		return err
	}
	return postgres.Tx(ctx, s.servers.Pool, func(tx pgx.Tx) error { return work(tx, inHalves) })
}

// write does something with many rows at once. Where that fails for what a row holds, inHalves does it with each half, down to
// the rows that are to blame, which are refused, so that no row ever stops the others. Each is a savepoint.
func write[T any](
	ctx context.Context, tx pgx.Tx, how attempt, rows []T, do func(pgx.Tx, []T) error, refuse func(T, error) error,
) error {
	if how == atOnce {
		return do(tx, rows)
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return do(tx, rows) })
	if err == nil || !postgres.Refused(err) {
		return err
	}
	if len(rows) == 1 {
		return refuse(rows[0], err)
	}
	half := len(rows) / 2
	if err := write(ctx, tx, how, rows[:half], do, refuse); err != nil {
		return err
	}
	return write(ctx, tx, how, rows[half:], do, refuse)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
