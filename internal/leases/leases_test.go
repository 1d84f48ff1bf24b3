package leases

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testkit.Database(t, db.Up))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// expired is a worker whose lease has run out and that holds a run.
func expired(t *testing.T, pool *pgxpool.Pool) uuid.UUID {
	t.Helper()
	var id int32
	require.NoError(t, pool.QueryRow(t.Context(), `INSERT INTO connectors (name, type, user_id) VALUES ('docs', 'web', 1) RETURNING id`).Scan(&id))
	try := movestest.Syncing(t, pool, id)
	var worker uuid.UUID
	require.NoError(t, pool.QueryRow(t.Context(), `UPDATE workers SET expires_at = clock_timestamp()
		WHERE id = (SELECT worker_id FROM open_runs WHERE id = $1) RETURNING id`, try.Run).Scan(&worker))
	return worker
}

// look returns the lost workers.
func look(t *testing.T, w *Watch) (lost []uuid.UUID) {
	t.Helper()
	text, err := w.Look(t.Context())
	require.NoError(t, err)
	var all []Silent
	require.NoError(t, json.Unmarshal(text, &all))
	for _, s := range all {
		lost = append(lost, s.ID)
	}
	return lost
}

// watch is one whose clock stands until past moves it.
func watch(pool *pgxpool.Pool, patience time.Duration) (w *Watch, past func(time.Duration)) {
	now := time.Now()
	return NewWatch(pool, patience, func() time.Time { return now }), func(by time.Duration) { now = now.Add(by) }
}

func TestAWorkerIsLostWhenItsLeaseIsOverAndItWasNotHeardOfForALease(t *testing.T) {
	pool := open(t)
	w, past := watch(pool, 15*time.Second)
	worker := expired(t, pool)
	exec(t, pool, `UPDATE workers SET expires_at = clock_timestamp() + interval '1 minute'`)
	require.Empty(t, look(t, w))
	past(15 * time.Second)
	require.Empty(t, look(t, w), "its lease is not over")
	exec(t, pool, `UPDATE workers SET expires_at = clock_timestamp()`)
	require.Equal(t, []uuid.UUID{worker}, look(t, w), "its silence counts from its last heartbeat on, not from the end of its lease")
	exec(t, pool, `UPDATE workers SET beats = beats + 1`)
	require.Empty(t, look(t, w), "it was heard of")
	past(10 * time.Second)
	require.Empty(t, look(t, w))
	past(5 * time.Second)
	require.Equal(t, []uuid.UUID{worker}, look(t, w))
}

func TestAWorkerWithoutARunThatMissesSomethingIsNobodysLoss(t *testing.T) {
	pool := open(t)
	w, _ := watch(pool, 0)
	worker := expired(t, pool)
	require.Equal(t, []uuid.UUID{worker}, look(t, w))
	exec(t, pool, `UPDATE open_runs SET total = 0, whole = true`)
	require.Empty(t, look(t, w))
}

func TestForgettingHoldsEverythingForALease(t *testing.T) {
	pool := open(t)
	w, past := watch(pool, 15*time.Second)
	worker := expired(t, pool)
	require.Empty(t, look(t, w))
	require.False(t, w.Held())
	past(15 * time.Second)
	w.Forget()
	require.True(t, w.Held())
	require.Empty(t, look(t, w))
	past(14 * time.Second)
	require.True(t, w.Held())
	require.Empty(t, look(t, w))
	past(time.Second)
	require.False(t, w.Held())
	require.Equal(t, []uuid.UUID{worker}, look(t, w))
}

func TestACallWithoutAnAnswerCountsAsNobodysSilenceAndForgetsNobody(t *testing.T) {
	pool := open(t)
	w, past := watch(pool, 15*time.Second)
	worker := expired(t, pool)
	require.Empty(t, look(t, w))
	past(15 * time.Second)
	require.Equal(t, []uuid.UUID{worker}, look(t, w))
	late := &deadline.Error{Name: "rescue", After: 8 * time.Second}
	require.True(t, w.Unheard(8*time.Second, fmt.Errorf("rescue: %w", late)))
	require.False(t, w.Held())
	require.Empty(t, look(t, w))
	past(8 * time.Second)
	require.Equal(t, []uuid.UUID{worker}, look(t, w), "what it was silent before still counts")

	_, err := pool.Exec(t.Context(), `SET statement_timeout = '1ms'; SELECT pg_sleep(1)`)
	require.True(t, w.Unheard(0, err))
	for _, other := range []error{nil, io.EOF, &pgconn.PgError{Code: "57P01"}, &pgconn.PgError{Code: "55P03"}} {
		require.False(t, w.Unheard(0, other), "%v", other)
	}
}

func TestAWatcherThatStoodStillBeginsAllOver(t *testing.T) {
	pool := open(t)
	w, past := watch(pool, 15*time.Second)
	worker := expired(t, pool)
	require.Empty(t, look(t, w))
	past(time.Hour)
	require.Empty(t, look(t, w), "what happened in this hour nobody has seen")
	require.True(t, w.Held())
	past(15 * time.Second)
	require.Equal(t, []uuid.UUID{worker}, look(t, w))
}

func TestEveryWorkerOfManyPagesIsWatched(t *testing.T) {
	pool := open(t)
	w, _ := watch(pool, 0)
	exec(t, pool, `INSERT INTO workers (id, expires_at) SELECT gen_random_uuid(), clock_timestamp() FROM generate_series(1, $1::int)`, 2*page+10)
	worker := expired(t, pool)
	require.Equal(t, []uuid.UUID{worker}, look(t, w))
	require.Len(t, w.seen, 2*page+11)
	exec(t, pool, `DELETE FROM workers WHERE id <> $1`, worker)
	look(t, w)
	require.Len(t, w.seen, 1, "who is gone is forgotten")
}
