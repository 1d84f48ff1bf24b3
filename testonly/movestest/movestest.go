// Package movestest brings connectors where a test wants them, by the moves that the services make, and writes what only
// moves may write where a test must.
package movestest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/sdk/lifecycle"
)

// DB is a pool or a connection.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Force runs a statement that may write the columns which only moves write.
func Force(t testing.TB, db DB, sql string, args ...any) int64 {
	t.Helper()
	n, err := TryForce(context.Background(), db, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// TryForce is Force for who wants the error.
func TryForce(ctx context.Context, db DB, sql string, args ...any) (n int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('echomind.moving', 'on', true)`); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sql, args...)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

// Multiply makes of every connector as many as it says: a crowd, in a hundredth of the time that its triggers would take. The copies have what
// triggers have written for the first.
func Multiply(t testing.TB, db DB, times int) {
	t.Helper()
	Force(t, db, fmt.Sprintf(`DO $$ DECLARE
			same text := (SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
				WHERE attrelid = 'connectors'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity = '');
		BEGIN
			SET LOCAL session_replication_role = replica;
			EXECUTE format('INSERT INTO connectors (%%1$s) SELECT %%1$s FROM connectors, generate_series(2, %d) time ORDER BY time, id', same);
		END $$`, times))
}

// Claim makes a connector at rest due and PENDING, and returns its run.
func Claim(t testing.TB, db DB, connector int32) uuid.UUID {
	t.Helper()
	Force(t, db, `UPDATE connectors SET next_sync_at = coalesce(least(next_sync_at, clock_timestamp()), clock_timestamp()),
		due_reason = coalesce(due_reason, 'manual'), needs_plan = false WHERE id = $1 AND run_id IS NULL`, connector)
	return claim(t, db, connector, false)
}

// ClaimAsked claims a connector for the run that was asked for with parameters, and returns that.
func ClaimAsked(t testing.TB, db DB, connector int32) uuid.UUID {
	t.Helper()
	return claim(t, db, connector, true)
}

func claim(t testing.TB, db DB, connector int32, asked bool) uuid.UUID {
	t.Helper()
	run := uuid.New()
	err := pgx.BeginFunc(context.Background(), db, func(tx pgx.Tx) error {
		var n int
		claim := fmt.Sprintf(`[{"id":%d,"run_id":%q,"asked":%t}]`, connector, run, asked)
		err := tx.QueryRow(context.Background(), `SELECT moves.claim($1, clock_timestamp())`, claim).Scan(&n)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d connectors were claimed", n)
		}
		return err
	})
	if err != nil {
		t.Fatalf("claim connector %d: %v", connector, err)
	}
	return run
}

// PickUp picks a PENDING connector's run up, by a worker process of its own with a lease.
func PickUp(t testing.TB, db DB, connector int32, run uuid.UUID, lease time.Duration) lifecycle.Try {
	t.Helper()
	try := lifecycle.Try{Run: run, ID: uuid.New()}
	err := pgx.BeginFunc(context.Background(), db, func(tx pgx.Tx) error {
		var picked bool
		err := tx.QueryRow(context.Background(), `SELECT moves.pick_up($1, $2, $3, gen_random_uuid(), $4)`,
			connector, run, try.ID, lease).Scan(&picked)
		if err == nil && !picked {
			err = lifecycle.ErrFenced
		}
		return err
	})
	if err != nil {
		t.Fatalf("pick up connector %d: %v", connector, err)
	}
	return try
}

// Syncing claims a connector at rest and picks it up.
func Syncing(t testing.TB, db DB, connector int32) lifecycle.Try {
	t.Helper()
	return PickUp(t, db, connector, Claim(t, db, connector), 15*time.Second)
}
