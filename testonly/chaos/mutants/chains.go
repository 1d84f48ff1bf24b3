package mutants

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/chaos/audit"
)

// chained has a connector run after two others. The first of them ends twice, before the second ends and after it; then the second ends again.
// After each end those who follow are told and looked at as the scheduler does it.
func chained(ctx context.Context, pool *pgxpool.Pool) (audit.Finding, error) {
	if err := audit.Install(ctx, pool); err != nil {
		return audit.Finding{}, err
	}
	var ids []int32
	for _, sql := range []string{
		`INSERT INTO connectors (name, type, user_id) SELECT 'one', 'web', 1 FROM generate_series(1, 3)`,
		`INSERT INTO run_after (connector_id, upstream_id) SELECT max(id), unnest((array_agg(id ORDER BY id))[:2]) FROM connectors`,
	} {
		if err := exec(ctx, pool, sql); err != nil {
			return audit.Finding{}, err
		}
	}
	if err := pool.QueryRow(ctx, `SELECT array_agg(id ORDER BY id) FROM connectors`).Scan(&ids); err != nil {
		return audit.Finding{}, fmt.Errorf("ask for the connectors: %w", err)
	}
	for _, upstream := range []int32{ids[0], ids[1], ids[0], ids[1]} {
		if err := exec(ctx, pool, `SELECT moves.trigger_sync($1)`, upstream); err != nil {
			return audit.Finding{}, err
		}
		if err := runToItsEnd(ctx, pool, upstream); err != nil {
			return audit.Finding{}, err
		}
		if err := lookAtChains(ctx, pool, ids[2]); err != nil {
			return audit.Finding{}, err
		}
	}
	return found(ctx, pool, noVain)
}

// lookAtChains tells who runs after connectors that have ended, and lets one go whose upstreams have all ended, and run, until it waits.
func lookAtChains(ctx context.Context, pool *pgxpool.Pool, follower int32) error {
	for range 3 {
		err := exec(ctx, pool, `SELECT moves.hand_on_all(array_agg(e.connector_id), array_agg(e.no), 20) FROM upstream_ends e WHERE e.tell_at <= clock_timestamp() HAVING count(*) > 0`)
		if err != nil {
			return err
		}
		var met bool
		var waitsFor *int32
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var told []int64
			err := tx.QueryRow(ctx, `SELECT array_agg(f.told) FROM followers f, moves.lock_followers(ARRAY[f.connector_id]) c
				WHERE f.connector_id = $1 AND f.look_at <= clock_timestamp()`, follower).Scan(&told)
			if err != nil || len(told) == 0 { // nobody is to be looked at
				return wrapped("lock who runs after others", err)
			}
			if err := tx.QueryRow(ctx, `SELECT u.met, u.waits_for FROM moves.upstreams_of(ARRAY[$1::int], clock_timestamp()) u`, follower).Scan(&met, &waitsFor); err != nil {
				return fmt.Errorf("look at upstreams: %w", err)
			}
			if met {
				_, err = tx.Exec(ctx, `SELECT moves.let_follow(ARRAY[$1::int])`, follower)
			} else {
				_, err = tx.Exec(ctx, `SELECT moves.look_again(ARRAY[$1::int], $2, ARRAY[NULL::timestamptz], NULL, ARRAY[$3::int])`, follower, told, waitsFor)
			}
			return wrapped("write what becomes of who runs after others", err)
		})
		if err != nil || !met {
			return err
		}
		if err := runToItsEnd(ctx, pool, follower); err != nil {
			return err
		}
	}
	return nil
}

// runToItsEnd claims a connector that is due, and has its run completed.
func runToItsEnd(ctx context.Context, pool *pgxpool.Pool, id int32) error {
	for _, sql := range []string{
		`SELECT moves.claim(jsonb_build_array(jsonb_build_object('id', c.id, 'run_id', '` + uuid.NewString() + `', 'follows', c.follows)), clock_timestamp()) FROM connectors c WHERE c.id = $1`,
		`SELECT moves.pick_up(connector_id, id, gen_random_uuid()) FROM open_runs WHERE connector_id = $1`,
		`SELECT moves.finish(id, try_id) FROM open_runs WHERE connector_id = $1`,
	} {
		if err := exec(ctx, pool, sql, id); err != nil {
			return err
		}
	}
	return nil
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
