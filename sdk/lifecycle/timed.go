package lifecycle

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// timed is a pool whose queries Postgres itself ends after a time. A client that gives up leaves its query behind for a moment, with
// the rows that it holds: a caller that then asks for one of them finds it held by its own transaction only.
type timed struct {
	*pgxpool.Pool
	after time.Duration
}

// Query is one transaction, and one trip.
func (t timed) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT set_config('statement_timeout', $1, true)`, strconv.FormatInt(t.after.Milliseconds(), 10))
	batch.Queue(sql, args...)
	results := t.SendBatch(ctx, batch)
	if _, err := results.Exec(); err != nil {
		return nil, errors.Join(err, results.Close())
	}
	rows, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return &timedRows{Rows: rows, results: results}, nil
}

// timedRows are read to their end only when the transaction is committed, and else have its error.
type timedRows struct {
	pgx.Rows
	results pgx.BatchResults
	closed  bool
	err     error
}

func (r *timedRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.Close()
	}
	return more
}

func (r *timedRows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	r.err = r.results.Close()
}

func (r *timedRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}
