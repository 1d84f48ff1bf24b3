package lifecycle_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/sdk/lifecycle"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

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
	id             int32
	session, owner uuid.UUID
}

// active is a connector at rest that is synced every hour.
func (f *fixture) active() trip {
	f.t.Helper()
	id := one[int32](f, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		VALUES ('notes', 'file', 1, 60) RETURNING id`)
	return trip{id: id, owner: uuid.New()}
}

func (f *fixture) pending() trip {
	f.t.Helper()
	return f.claim(f.active())
}

// claim does what the scheduler does.
func (f *fixture) claim(c trip) trip {
	f.t.Helper()
	c.session = uuid.New()
	f.exec(`UPDATE connectors SET status = 'PENDING', chunking_session = $2, dispatched_at = clock_timestamp(),
		next_sync_at = NULL, due_reason = NULL, slot_at = NULL WHERE id = $1`, c.id, c.session)
	f.exec(`INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, config_version)
		SELECT $2, id, 'connector.sync.file', 'manual', clock_timestamp(), clock_timestamp(), config_version
		FROM connectors WHERE id = $1`, c.id, c.session)
	return c
}

func (f *fixture) syncing() trip {
	f.t.Helper()
	c := f.pending()
	require.NoError(f.t, f.PickUp(ctx, c.id, c.session, c.owner, lease))
	return c
}

// stored is a syncing connector whose n documents are all stored.
func (f *fixture) stored(n int) trip {
	f.t.Helper()
	c := f.syncing()
	f.exec(`UPDATE scheduler_runs SET total = $2, stored = $2 WHERE id = $1`, c.session, n)
	return c
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

// run reads one column of a trip's run.
func run[T any](f *fixture, c trip, column string) T {
	f.t.Helper()
	return one[T](f, `SELECT `+column+` FROM scheduler_runs WHERE id = $1`, c.session)
}

// everything is all that is stored of a connector and its runs.
func (f *fixture) everything(c trip) string {
	f.t.Helper()
	return one[string](f, `SELECT concat(c::text, (SELECT string_agg(r::text, ' ' ORDER BY r.id) FROM scheduler_runs r
		WHERE r.connector_id = c.id)) FROM connectors c WHERE c.id = $1`, c.id)
}
