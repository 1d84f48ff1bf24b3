package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

const lease = 15 * time.Second

var ctx = context.Background()

type fixture struct {
	*lifecycle.Lifecycle
	t    *testing.T
	pool *pgxpool.Pool
}

func newFixture(t *testing.T) *fixture {
	t.Parallel()
	pool, err := postgres.Open(ctx, testkit.Database(t, db.Up), "test", 10)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &fixture{Lifecycle: lifecycle.New(pool), t: t, pool: pool}
}

// trip is one connector on its way.
type trip struct {
	id     int32
	try    lifecycle.Try
	worker uuid.UUID
	failed int32 // in a row, before this run
}

// active is a connector at rest that is synced every hour.
func (f *fixture) active() trip {
	f.t.Helper()
	id := one[int32](f, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		VALUES ('notes', 'file', 1, 60) RETURNING id`)
	return trip{id: id, worker: uuid.New()}
}

func (f *fixture) pending() trip {
	f.t.Helper()
	return f.claim(f.active())
}

// claim does what the scheduler does.
func (f *fixture) claim(c trip) trip {
	f.t.Helper()
	c.try = lifecycle.Try{Run: movestest.Claim(f.t, f.pool, c.id), ID: uuid.New()}
	return c
}

func (f *fixture) syncing() trip {
	f.t.Helper()
	c := f.pending()
	require.NoError(f.t, f.PickUp(ctx, c.id, c.try, c.worker, lease))
	return c
}

// stored is a syncing connector whose n documents are all stored.
func (f *fixture) stored(n int) trip {
	f.t.Helper()
	c := f.syncing()
	f.exec(`UPDATE open_runs SET total = $2, stored = $2, whole = true WHERE id = $1`, c.try.Run, n)
	return c
}

// force writes what only moves may write.
func (f *fixture) force(sql string, args ...any) {
	f.t.Helper()
	movestest.Force(f.t, f.pool, sql, args...)
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(ctx, sql, args...)
	require.NoError(f.t, err)
}

func one[T any](f *fixture, sql string, args ...any) T {
	f.t.Helper()
	rows, err := f.pool.Query(ctx, sql, args...)
	require.NoError(f.t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(f.t, err)
	return value
}

// of reads one column of a connector.
func of[T any](f *fixture, c trip, column string) T {
	f.t.Helper()
	return one[T](f, `SELECT `+column+` FROM connectors WHERE id = $1`, c.id)
}

// run reads one column of a trip's run, open or ended.
func run[T any](f *fixture, c trip, column string) T {
	f.t.Helper()
	return one[T](f, `SELECT `+column+` FROM scheduler_runs WHERE id = $1`, c.try.Run)
}

// everything is all that is stored of a connector and its runs.
func (f *fixture) everything(c trip) string {
	f.t.Helper()
	return one[string](f, `SELECT concat(c::text, (SELECT string_agg(r::text, ' ' ORDER BY r.id) FROM open_runs r
		WHERE r.connector_id = c.id), (SELECT string_agg(r::text, ' ' ORDER BY r.id) FROM runs r WHERE r.connector_id = c.id),
		(SELECT string_agg(u::text, ' ' ORDER BY u.run_id) FROM unswept_runs u WHERE u.connector_id = c.id))
		FROM connectors c WHERE c.id = $1`, c.id)
}
