package db_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// base is a migrated database of one test's own, spoken to in plain SQL as any service may.
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

// synced is one that synced a minute ago and is planned.
func (b *base) synced() int32 {
	b.Helper()
	id := b.connector()
	b.syncing(id)
	b.exec(`UPDATE connectors SET status = 'ACTIVE', last_sync_at = clock_timestamp(), state = '{"cursor":1}',
		chunking_session = NULL WHERE id = $1`, id)
	return id
}

// pending does what the scheduler's claim does.
func (b *base) pending(id int32) uuid.UUID {
	b.Helper()
	session := uuid.New()
	b.exec(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, config_version)
		SELECT $2, id, 'connector.sync.web', coalesce(due_reason, 'manual'), now(), clock_timestamp(), config_version
		FROM connectors WHERE id = $1`, id, session)
	b.exec(`UPDATE connectors SET status = 'PENDING', chunking_session = $2, dispatched_at = now(), dispatches = 1,
		next_sync_at = NULL, due_reason = NULL, slot_at = NULL, needs_plan = false WHERE id = $1`, id, session)
	return session
}

func (b *base) syncing(id int32) uuid.UUID {
	b.Helper()
	session := b.pending(id)
	b.exec(`UPDATE connectors SET status = 'SYNCING', lease_owner = gen_random_uuid(),
		lease_expires_at = now() + interval '15 s' WHERE chunking_session = $1 AND status = 'PENDING'`, session)
	return session
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
		b.fail(id, "retry")
	case "DISABLED":
		b.exec(`UPDATE connectors SET status = 'DISABLED' WHERE id = $1`, id)
	}
	return id
}

// fail ends a new run of a connector in ERROR.
func (b *base) fail(id int32, kind string) {
	b.Helper()
	session := b.syncing(id)
	b.exec(`UPDATE connectors SET status = 'ERROR', due_reason = $2, status_message = 'it broke', chunking_session = NULL,
		lease_owner = NULL, lease_expires_at = NULL WHERE chunking_session = $1 AND status = 'SYNCING'`, session, kind)
}

// notified counts the notifications that a statement causes.
func (b *base) notified(sql string, args ...any) int {
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
	n := 0
	for {
		ctx, cancel := contextWithin(b.T, 100*time.Millisecond)
		_, err := listener.WaitForNotification(ctx)
		cancel()
		if err != nil {
			return n
		}
		n++
	}
}
