package postgres

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// OneTrip is a pool. Each of its statements is a whole transaction, sent in one trip with its bounds: the server commits it also where its client vanishes or is suspended meanwhile, so no
// lock waits for the client. Of the bounds it has those for locks and statements.
type OneTrip struct {
	Pool   *pgxpool.Pool
	Bounds Bounds
}

func (o OneTrip) send(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)`,
		strconv.FormatInt(milliseconds(o.Bounds.Lock, lockBound), 10), strconv.FormatInt(milliseconds(o.Bounds.Statement, statementBound), 10))
	batch.Queue(sql, args...)
	results := o.Pool.SendBatch(ctx, batch)
	if _, err := results.Exec(); err != nil {
		_ = results.Close() // it has the same error
		return nil, err
	}
	return results, nil
}

// Exec runs a statement that returns nothing.
func (o OneTrip) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := o.send(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if err != nil {
		_ = results.Close()
		return tag, err
	}
	return tag, results.Close()
}

// Query is refused: rows would be read before the transaction is committed.
func (o OneTrip) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errors.New("postgres.OneTrip: a statement of many rows is not sent in one trip; use Tx")
}

// QueryRow runs a statement that returns one row. The row is there once the transaction is committed.
func (o OneTrip) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results, err := o.send(ctx, sql, args)
	return oneTripRow{results, err}
}

type oneTripRow struct {
	results pgx.BatchResults
	err     error
}

func (r oneTripRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	if err := r.results.QueryRow().Scan(into...); err != nil {
		_ = r.results.Close()
		return err
	}
	return r.results.Close()
}
