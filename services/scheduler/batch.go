package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// halves does something with many rows at once. Where that fails for what a row holds it is done with each half, down to the
// rows that are to blame, which are refused, so that no row ever stops the others. Each attempt is a savepoint.
func halves[T any](
	ctx context.Context, tx pgx.Tx, rows []T, do func(pgx.Tx, []T) error, refuse func(T, error) error,
) error {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return do(tx, rows) })
	if err == nil || !faultOfARow(err) {
		return err
	}
	if len(rows) == 1 {
		return refuse(rows[0], err)
	}
	half := len(rows) / 2
	if err := halves(ctx, tx, rows[:half], do, refuse); err != nil {
		return err
	}
	return halves(ctx, tx, rows[half:], do, refuse)
}

// faultOfARow says whether Postgres refused what was written, and nothing else is wrong: a value, a constraint, a function's
// own refusal.
func faultOfARow(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || pg.Code == "P0001")
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
