package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// lockBound is longer than Postgres takes to find a deadlock (deadlock_timeout, 1 s): a shorter one would end the
	// wait as Locked before the deadlock is found, and nothing would be repeated.
	lockBound = 3 * time.Second
	// statementBound is as long as the longest deadline of a service's own. It ends what a client has left behind that
	// can no longer cancel it.
	statementBound = 30 * time.Second
	// idleBound is how long the locks of a client live that has vanished, or stands still, in the middle of a transaction.
	idleBound = 15 * time.Second
)

// maxAttempts bounds how often a transaction is repeated after a deadlock.
const maxAttempts = 5

// Bounds are what the server bounds a transaction by, so that it ends even where its client is gone. Each is rounded up
// to a millisecond; 0 = as Tx has it. None can be switched off.
type Bounds struct {
	// Lock is how long one statement may wait for each lock; then it fails with an error that is Locked. Tx: 3 s.
	Lock time.Duration
	// Statement is how long one statement may take; then it fails with an error that is Unavailable. Tx: 30 s.
	Statement time.Duration
	// Idle is how long the client may say nothing; then the server ends the session and frees its locks. Tx: 15 s.
	Idle time.Duration
	// ByIndex forbids plans that read all of a table or of a key before they take the first rows, which statistics of a quiet
	// time may make look cheap. For statements that take a few rows behind a place.
	ByIndex bool
}

// begin begins a transaction and bounds it, in one round trip. It has no arguments, so the driver sends it as one
// message: a pooler hands all of it to the server that the transaction gets.
func (b Bounds) begin(mode string) pgx.TxOptions {
	if b.ByIndex {
		mode += "; set local enable_seqscan = off; set local enable_bitmapscan = off"
	}
	return pgx.TxOptions{BeginQuery: fmt.Sprintf(
		"begin%s; set local lock_timeout = %d; set local statement_timeout = %d; set local idle_in_transaction_session_timeout = %d",
		mode, milliseconds(b.Lock, lockBound), milliseconds(b.Statement, statementBound), milliseconds(b.Idle, idleBound),
	)}
}

func milliseconds(d, otherwise time.Duration) int64 {
	if d <= 0 {
		d = otherwise
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Beginner is a pool or a connection.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Tx runs work in one READ COMMITTED transaction and commits it, unless work returns an error. After a deadlock
// (40P01) or a serialisation failure the whole transaction is repeated, a bounded number of times. The server bounds
// its waits for locks, its statements and its idle time: see Bounds.
func Tx(ctx context.Context, db Beginner, work func(pgx.Tx) error) error {
	return TxBounded(ctx, db, Bounds{}, work)
}

// TxBounded is Tx with other bounds.
func TxBounded(ctx context.Context, db Beginner, bounds Bounds, work func(pgx.Tx) error) error {
	return repeat(ctx, db, bounds.begin(" isolation level read committed"), work)
}

// Snapshot is Tx for several queries that must see the same moment. It cannot write.
func Snapshot(ctx context.Context, db Beginner, work func(pgx.Tx) error) error {
	return repeat(ctx, db, Bounds{}.begin(" isolation level repeatable read read only"), work)
}

func repeat(ctx context.Context, db Beginner, options pgx.TxOptions, work func(pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := pgx.BeginTxFunc(ctx, db, options, work)
		if err == nil || !repeatable(err) || attempt == maxAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(rand.IntN(20*attempt)+1) * time.Millisecond):
		}
	}
}

func repeatable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001")
}
