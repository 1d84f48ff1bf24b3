package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/repeat"
)

const (
	// lockBound is longer than Postgres takes to detect a deadlock (deadlock_timeout, 1 s): a shorter bound would end the wait
	// as Locked before the deadlock is detected, and nothing would be repeated.
	lockBound = 3 * time.Second
	// statementBound is the longest deadline of a service. It ends a statement whose client is gone and can no longer cancel
	// it.
	statementBound = 30 * time.Second
	// idleBound is how long locks are held for a client that has vanished, or is suspended, in the middle of a transaction.
	idleBound = 15 * time.Second
)

// maxAttempts bounds how often a transaction is repeated after a deadlock.
const maxAttempts = 5

// pauses are between these attempts, scattered: both sides of a deadlock may try again.
var pauses = repeat.Pauses{First: 20 * time.Millisecond, Last: 80 * time.Millisecond}

// Bounds are the server's bounds of a transaction, so that it ends even where its client is gone. Each is rounded up to a
// millisecond; 0 = the bound of Tx. None can be switched off.
type Bounds struct {
	// Lock is how long one statement may wait for each lock; then it fails with an error that is Locked. Tx: 3 s.
	Lock time.Duration
	// Statement is how long one statement may take; then it fails with an error that is Unavailable. Tx: 30 s.
	Statement time.Duration
	// Idle is how long the client may send nothing; then the server ends the session and frees its locks. Tx: 15 s.
	Idle time.Duration
	// ByIndex forbids plans that read a whole table or key before they return the first rows: statistics of a quiet time may
	// make them look cheap. It is for statements that read a few rows after a given key.
	ByIndex bool
	// Settings are set as the transaction begins.
	Settings []Setting
}

// Setting is a run-time setting, and its value until its transaction ends.
type Setting struct{ Name, Value string }

// begin begins a transaction and sets its bounds, in one round trip. It has no arguments, so the driver sends it as one
// message, and a pooler sends all of it to the server that the transaction gets.
func (b Bounds) begin(mode string) pgx.TxOptions {
	if b.ByIndex {
		mode += "; set local enable_seqscan = off; set local enable_bitmapscan = off"
	}
	query := fmt.Sprintf(
		"begin%s; set local lock_timeout = %d; set local statement_timeout = %d; set local idle_in_transaction_session_timeout = %d",
		mode, milliseconds(b.Lock, lockBound), milliseconds(b.Statement, statementBound), milliseconds(b.Idle, idleBound),
	)
	if len(b.Settings) > 0 {
		query += "; " + set(b.Settings)
	}
	return pgx.TxOptions{BeginQuery: query}
}

// Set sets settings of a transaction that has begun. At least one is given.
func Set(ctx context.Context, tx pgx.Tx, settings []Setting) error {
	_, err := tx.Exec(ctx, set(settings))
	return err
}

// set is a SELECT: pg_stat_statements keeps only a few of these for all values.
func set(settings []Setting) string {
	var sql strings.Builder
	sql.WriteString("select ")
	for i, s := range settings {
		if i > 0 {
			sql.WriteString(", ")
		}
		sql.WriteString("set_config(")
		literal(&sql, s.Name)
		sql.WriteString(", ")
		literal(&sql, s.Value)
		sql.WriteString(", true)")
	}
	return sql.String()
}

// literal writes a text so that it ends no string, whatever it is and whatever the server takes for an escape: as it is where nothing in it could be one, which takes the server a
// fraction of the time, else as hexadecimal digits.
func literal(sql *strings.Builder, text string) {
	if isPlain(text) {
		sql.WriteString("'" + text + "'")
		return
	}
	fmt.Fprintf(sql, "convert_from(decode('%x', 'hex'), 'UTF8')", text)
}

func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '\'' || c == '\\' {
			return false
		}
	}
	return true
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

// Tx runs work in one READ COMMITTED transaction and commits it, unless work returns an error. After a deadlock (40P01) or a
// serialisation failure the whole transaction is repeated, a bounded number of times. The server bounds its waits for locks,
// its statements and its idle time: see Bounds.
func Tx(ctx context.Context, db Beginner, work func(pgx.Tx) error) error {
	return TxBounded(ctx, db, Bounds{}, work)
}

// TxBounded is Tx with other bounds.
func TxBounded(ctx context.Context, db Beginner, bounds Bounds, work func(pgx.Tx) error) error {
	return inTx(ctx, db, bounds.begin(" isolation level read committed"), work)
}

// Snapshot is Tx for several queries that must see the same moment. It cannot write.
func Snapshot(ctx context.Context, db Beginner, work func(pgx.Tx) error) error {
	return inTx(ctx, db, Bounds{}.begin(" isolation level repeatable read read only"), work)
}

func inTx(ctx context.Context, db Beginner, options pgx.TxOptions, work func(pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := pgx.BeginTxFunc(ctx, db, options, work)
		if err == nil || !repeatable(err) || attempt == maxAttempts || repeat.Sleep(ctx, pauses.Scattered(attempt)) != nil {
			return err
		}
	}
}

func repeatable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001")
}
