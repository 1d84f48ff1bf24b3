package mutants

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/chaos/audit"
)

// keyed has two claimers at once claim connectors of a key that has one place, as the scheduler does. The first is switched off,
// the next is claimed, its worker is lost, it is rescued, and one more comes.
func keyed(ctx context.Context, pool *pgxpool.Pool) (audit.Finding, error) {
	if err := audit.Install(ctx, pool); err != nil {
		return audit.Finding{}, err
	}
	var ids []int32
	err := errors.Join(
		exec(ctx, pool, `INSERT INTO concurrency_limits (key, most) VALUES ('k', 1)`),
		exec(ctx, pool, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, concurrency_keys) SELECT 'one', 'web', 1, 0, ARRAY['k'] FROM generate_series(1, 4)`),
		pool.QueryRow(ctx, `SELECT array_agg(id ORDER BY id) FROM connectors`).Scan(&ids),
	)
	if err != nil {
		return audit.Finding{}, err
	}
	first, err := pool.Begin(ctx)
	if err != nil {
		return audit.Finding{}, fmt.Errorf("begin a claim: %w", err)
	}
	defer func() { _ = first.Rollback(context.WithoutCancel(ctx)) }()
	if err := claimKeyed(ctx, first, ids[0]); err != nil {
		return audit.Finding{}, err
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return claimKeyed(ctx, tx, ids[1]) }); err != nil {
		return audit.Finding{}, err
	}
	if err := first.Commit(ctx); err != nil {
		return audit.Finding{}, fmt.Errorf("commit a claim: %w", err)
	}
	err = errors.Join(
		exec(ctx, pool, `SELECT moves.disable($1)`, ids[0]),
		pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return claimKeyed(ctx, tx, ids[2]) }),
		exec(ctx, pool, `SELECT moves.pick_up(connector_id, id, gen_random_uuid()) FROM open_runs`),
		exec(ctx, pool, `SELECT moves.rescue('[]', '0', 10)`),
		pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return claimKeyed(ctx, tx, ids[3]) }),
	)
	if err != nil {
		return audit.Finding{}, err
	}
	return found(ctx, pool, noKeyOver)
}

func exec(ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) error {
	if _, err := pool.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// claimKeyed claims a connector where key k has a place, and has it wait else.
func claimKeyed(ctx context.Context, tx pgx.Tx, id int32) error {
	var room int
	if _, err := tx.Exec(ctx, `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, id); err != nil {
		return fmt.Errorf("lock a connector: %w", err)
	}
	if err := tx.QueryRow(ctx, `SELECT r.room FROM moves.keys_of(ARRAY[$1::int]) k, moves.key_room(k.keys, true) r`, id).Scan(&room); err != nil {
		return fmt.Errorf("ask for a place: %w", err)
	}
	sql, args := `SELECT moves.park(ARRAY[$1::int], ARRAY['k'])`, []any{id}
	if room > 0 {
		sql, args = `SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', $1::int, 'run_id', $2::uuid, 'keys', ARRAY['k'])), clock_timestamp())`, []any{id, uuid.New()}
	}
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("claim a connector: %w", err)
	}
	return nil
}
