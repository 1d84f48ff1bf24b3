package db_test

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// base is a migrated database of one test's own, spoken to in plain SQL as its owner.
type base struct {
	*testing.T
	url  string
	conn *pgx.Conn
}

func newBase(t *testing.T) *base {
	t.Helper()
	return connectTo(t, testkit.Database(t, db.Up))
}

func connectTo(t *testing.T, url string) *base {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return &base{t, url, conn}
}

func (b *base) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.conn.Exec(b.Context(), sql, args...); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](b *base, sql string, args ...any) T {
	b.Helper()
	var value T
	if err := b.conn.QueryRow(b.Context(), sql, args...).Scan(&value); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
	return value
}

// before takes back a migration, and those after it.
func (b *base) before(version int) {
	b.Helper()
	for one[int](b, `SELECT max(version_id)::integer FROM goose_db_version`) >= version {
		if err := db.Down(b.Context(), b.url, false); err != nil {
			b.Fatal(err)
		}
	}
}

// holds fails the test unless a condition on a connector c, and its latest run r, is true.
func (b *base) holds(id int32, condition string) {
	b.Helper()
	var ok *bool
	err := b.conn.QueryRow(b.Context(), `SELECT `+condition+` FROM connectors c LEFT JOIN LATERAL (SELECT * FROM
		scheduler_runs WHERE connector_id = c.id ORDER BY started_at DESC LIMIT 1) r ON true WHERE c.id = $1`, id).Scan(&ok)
	if err != nil || ok == nil || !*ok {
		var row string
		_ = b.conn.QueryRow(b.Context(), `SELECT jsonb_pretty(jsonb_strip_nulls(to_jsonb(c)) || jsonb_build_object('runs',
			(SELECT jsonb_agg(jsonb_strip_nulls(to_jsonb(r)) ORDER BY started_at) FROM scheduler_runs r
				WHERE r.connector_id = c.id))) FROM connectors c WHERE id = $1`, id).Scan(&row)
		b.Errorf("not so: %s (%v)\n%s", condition, err, row)
	}
}

// refused fails the test unless a constraint of this name refuses a statement.
func (b *base) refused(constraint, sql string, args ...any) {
	b.Helper()
	_, err := b.conn.Exec(b.Context(), sql, args...)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.ConstraintName != constraint {
		b.Errorf("%s: %v, want it refused by %s", sql, err, constraint)
	}
}

// connector inserts an hourly web connector of user 1 that never synced.
func (b *base) connector() int32 {
	b.Helper()
	return one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		VALUES ('docs', 'web', 1, 60) RETURNING id`)
}

// force writes what only moves write.
func (b *base) force(sql string, args ...any) {
	b.Helper()
	movestest.Force(b, b.conn, sql, args...)
}

// pending claims a connector at rest.
func (b *base) pending(id int32) uuid.UUID {
	b.Helper()
	return movestest.Claim(b, b.conn, id)
}

// syncing is one that a worker process of its own has picked up.
func (b *base) syncing(id int32) lifecycle.Try {
	b.Helper()
	return movestest.Syncing(b, b.conn, id)
}

// whole does what semantic does for a run of n documents that has sent all.
func (b *base) whole(run uuid.UUID, n int, state string) {
	b.Helper()
	b.exec(`UPDATE open_runs SET total = $2, stored = $2, whole = true, documents_processed = $2, new_state = nullif($3, '')::jsonb
		WHERE id = $1`, run, n, state)
}

func (b *base) complete(id int32) {
	b.Helper()
	try := b.syncing(id)
	b.whole(try.Run, 1, `{"cursor":1}`)
	b.moves("completed", `SELECT verdict FROM moves.complete($1)`, try.Run)
}

// moves fails the test unless a move answers this.
func (b *base) moves(want, sql string, args ...any) {
	b.Helper()
	var got string
	err := b.conn.QueryRow(b.Context(), `SELECT coalesce((`+sql+`)::text, 'nothing')`, args...).Scan(&got)
	if err != nil || got != want {
		b.Errorf("%s %v: %q (%v), want %q", sql, args, got, err, want)
	}
}

// synced is one that has just synced and is planned.
func (b *base) synced() int32 {
	b.Helper()
	id := b.connector()
	b.complete(id)
	return id
}

// in is a connector in a status.
func (b *base) in(status string) int32 {
	b.Helper()
	id := b.synced()
	switch status {
	case "PENDING":
		b.pending(id)
	case "SYNCING":
		b.syncing(id)
	case "ERROR":
		b.fail(id, "transient")
	case "DISABLED":
		b.moves("true", `SELECT moves.disable($1)`, id)
	}
	return id
}

// fail ends a new run of a connector in ERROR.
func (b *base) fail(id int32, kind string) {
	b.Helper()
	try := b.syncing(id)
	b.moves("true", `SELECT moves.fail($1, $2, $3, 'it broke')`, try.Run, try.ID, kind)
}

// notified counts the notifications that a statement causes.
func (b *base) notified(sql string, args ...any) int {
	b.Helper()
	return len(b.told(sql, args...))
}

// told are the types that a statement's notifications name, in order.
func (b *base) told(sql string, args ...any) (types []string) {
	b.Helper()
	listener, err := pgx.Connect(b.Context(), b.url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = listener.Close(b.Context()) }()
	if _, err := listener.Exec(b.Context(), `LISTEN connectors_due`); err != nil {
		b.Fatal(err)
	}
	b.exec(sql, args...)
	// What was notified before this is delivered with its answer.
	if err := listener.Ping(b.Context()); err != nil {
		b.Fatal(err)
	}
	for {
		ctx, cancel := contextWithin(b.T, 100*time.Millisecond)
		told, err := listener.WaitForNotification(ctx)
		cancel()
		if err != nil {
			slices.Sort(types)
			return types
		}
		types = append(types, told.Payload)
	}
}
