package mutants

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/chaos/audit"
)

// requested does what the API does for a user who has no answer to a sync, sends it again with its key, switches the connector off and on, and then has
// both connectors switched off by an operation. It answers with one check.
func requested(check string) func(context.Context, *pgxpool.Pool) (audit.Finding, error) {
	return func(ctx context.Context, pool *pgxpool.Pool) (audit.Finding, error) {
		if err := audit.Install(ctx, pool); err != nil {
			return audit.Finding{}, err
		}
		var ids []int32
		if err := exec(ctx, pool, `INSERT INTO connectors (name, type, user_id) SELECT 'one', 'web', 1 FROM generate_series(1, 2)`); err != nil {
			return audit.Finding{}, err
		}
		if err := pool.QueryRow(ctx, `SELECT array_agg(id ORDER BY id) FROM connectors`).Scan(&ids); err != nil {
			return audit.Finding{}, fmt.Errorf("read the connectors: %w", err)
		}
		asked := func(action, key string, requests ...string) audit.Asked {
			return audit.Asked{Name: key, IsKeyed: true, UserID: 1, Action: "connectors." + action, Requests: requests, Outcome: audit.Done}
		}
		for _, r := range []struct{ id, key, act string }{
			{"first", "sync", `SELECT moves.trigger_sync($1)`}, {"again", "sync", `SELECT moves.trigger_sync($1)`},
			{"off", "off", `SELECT moves.disable($1)`}, {"on", "on", `SELECT moves.enable($1)`},
		} {
			if err := byRequest(ctx, pool, r.id, func(tx pgx.Tx) error { return keptOnce(ctx, tx, r.key, r.act, ids[0]) }); err != nil {
				return audit.Finding{}, err
			}
		}
		if err := operation(ctx, pool, ids); err != nil {
			return audit.Finding{}, err
		}
		all, err := audit.Answered(ctx, pool, audit.Requests{Asked: []audit.Asked{asked("sync", "sync", "first", "again"), asked("disable", "off", "off"), asked("enable", "on", "on")}}, false)
		for _, f := range all {
			if f.Name == check {
				return f, err
			}
		}
		return audit.Finding{}, err
	}
}

// byRequest does work in one transaction that serves user 1, as the API has them.
func byRequest(ctx context.Context, pool *pgxpool.Pool, id string, work func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('echomind.request', jsonb_build_object('user_id', 1, 'role', 'superadmin', 'request_id', $1::text)::text, true)`, id); err != nil {
			return fmt.Errorf("say whom a request serves: %w", err)
		}
		return work(tx)
	})
}

// keptOnce makes a change of one connector unless its key is kept.
func keptOnce(ctx context.Context, tx pgx.Tx, key, act string, id int32) error {
	var again bool
	if err := tx.QueryRow(ctx, `SELECT again FROM api.begin_request($1, '')`, key).Scan(&again); err != nil || again {
		return err
	}
	if _, err := tx.Exec(ctx, act, id); err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	_, err := tx.Exec(ctx, `SELECT api.end_request($1, 'done')`, key)
	return err
}

// operation switches connectors off in one batch.
func operation(ctx context.Context, pool *pgxpool.Pool, ids []int32) error {
	var id int32
	err := pool.QueryRow(ctx, `INSERT INTO operations (action, filter, user_id, role, matched, left_out, state, began_at)
		VALUES ('disable', '{}', 1, 'user', $1, 0, 'running', clock_timestamp()) RETURNING id`, len(ids)).Scan(&id)
	if err != nil {
		return fmt.Errorf("begin an operation: %w", err)
	}
	if err := exec(ctx, pool, `INSERT INTO operation_batches (operation_id, no, connectors) VALUES ($1, 0, $2)`, id, ids); err != nil {
		return err
	}
	return byRequest(ctx, pool, fmt.Sprint("operation/", id), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT moves.disable(k) FROM unnest($1::int[]) k`, ids); err != nil {
			return fmt.Errorf("switch connectors off: %w", err)
		}
		_, err := tx.Exec(ctx, `SELECT api.note_batch($1, 0, $2, 0, '{}', '{}', '{}', '{}', '{}', '{}', '1 second')`, id, len(ids))
		return err
	})
}
