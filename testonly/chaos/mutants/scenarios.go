package mutants

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/chaos/audit"
)

// heldUpBound is what a look may take that finds a row held.
const heldUpBound = time.Second

// heldUp lets two runs be lost in transit while somebody holds the connector of the first: the second is found all the same.
func heldUp(ctx context.Context, pool *pgxpool.Pool) (audit.Finding, error) {
	f := audit.Finding{Promise: 1, Name: inTheWay, How: "of two runs that are lost in transit one is found while the other's connector is held"}
	var runs []uuid.UUID
	for _, statement := range []string{
		`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'one', 'web', 1, 0 FROM generate_series(1, 2)`,
		`SELECT moves.claim(jsonb_agg(jsonb_build_object('id', id, 'run_id', gen_random_uuid()) ORDER BY id), clock_timestamp()) FROM connectors`,
		`SELECT moves.pick_up(connector_id, id, gen_random_uuid(), gen_random_uuid(), '1 minute') FROM open_runs`,
		`SELECT moves.drain(id, try_id, 1) FROM open_runs`,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return f, fmt.Errorf("lose two runs: %w", err)
		}
	}
	if err := pool.QueryRow(ctx, `SELECT array_agg(id ORDER BY connector_id) FROM open_runs`).Scan(&runs); err != nil {
		return f, fmt.Errorf("ask for the runs: %w", err)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return f, fmt.Errorf("hold a connector: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `SELECT FROM connectors WHERE run_id = $1 FOR UPDATE`, runs[0]); err != nil {
		return f, fmt.Errorf("hold a connector: %w", err)
	}
	began := time.Now()
	var found []uuid.UUID
	err = pool.QueryRow(ctx, `SELECT array_agg(run_id) FROM moves.fail_lost_in_transit($1, 2, 2)`, runs).Scan(&found)
	took := time.Since(began)
	f.Checked = 1
	if err != nil || len(found) != 1 || found[0] != runs[1] || took > heldUpBound {
		f.Violations = append(f.Violations, fmt.Sprintf("after %s the look has found %v of %v: %v", took.Round(time.Millisecond), found, runs, err))
		f.Violated = 1
	}
	return f, nil
}

// lockedTwice has two runs ask for one lock; the first ends, and the second asks again, and is ended by its user.
func lockedTwice(ctx context.Context, pool *pgxpool.Pool) (audit.Finding, error) {
	if err := audit.Install(ctx, pool); err != nil {
		return audit.Finding{}, err
	}
	const acquire = `SELECT moves.acquire_lock(id, try_id, 'gpu', '1 minute') FROM open_runs WHERE connector_id = `
	for _, statement := range []string{
		`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'one', 'web', 1, 0 FROM generate_series(1, 2)`,
		`SELECT moves.claim(jsonb_agg(jsonb_build_object('id', id, 'run_id', gen_random_uuid()) ORDER BY id), clock_timestamp()) FROM connectors`,
		`SELECT moves.pick_up(connector_id, id, gen_random_uuid(), gen_random_uuid(), '1 minute') FROM open_runs`,
		acquire + `(SELECT min(id) FROM connectors)`,
		acquire + `(SELECT max(id) FROM connectors)`,
		`SELECT moves.release(id, try_id) FROM open_runs WHERE connector_id = (SELECT min(id) FROM connectors)`,
		acquire + `(SELECT max(id) FROM connectors)`,
		`SELECT moves.disable(max(id)) FROM connectors`,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return audit.Finding{}, fmt.Errorf("have a lock asked for: %w", err)
		}
	}
	return found(ctx, pool, oneHolder)
}

// asked has a run with parameters asked for, whose worker is lost, and which fails then.
func asked(ctx context.Context, pool *pgxpool.Pool) (audit.Finding, error) {
	if err := audit.Install(ctx, pool); err != nil {
		return audit.Finding{}, err
	}
	const pickUp = `SELECT moves.pick_up(connector_id, id, gen_random_uuid()) FROM open_runs`
	for _, statement := range []string{
		`UPDATE connector_types SET kind = 'job' WHERE name = 'web'`,
		`INSERT INTO connectors (name, type, user_id, last_sync_at, refresh_freq_minutes) VALUES ('one', 'web', 1, clock_timestamp(), 60)`,
		`SELECT moves.trigger_sync(id, parameters => '{"dry_run": true}') FROM connectors`,
		`SELECT moves.claim(jsonb_agg(jsonb_build_object('id', id, 'run_id', gen_random_uuid(), 'asked', true)), clock_timestamp()) FROM connectors`,
		pickUp,
		`SELECT moves.rescue('[]', '0', 10)`,
		pickUp,
		`SELECT moves.fail(id, try_id, 'permanent', 'no such provider') FROM open_runs`,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return audit.Finding{}, fmt.Errorf("have a run with parameters: %w", err)
		}
	}
	return found(ctx, pool, planStays)
}

// edited lets a user do something to a connector whose slot has passed, before the scheduler has come by.
func edited(statement string) func(context.Context, *pgxpool.Pool) (audit.Finding, error) {
	return func(ctx context.Context, pool *pgxpool.Pool) (audit.Finding, error) {
		if err := audit.Install(ctx, pool); err != nil {
			return audit.Finding{}, err
		}
		for _, sql := range []string{
			`INSERT INTO connectors (name, type, user_id, last_sync_at, refresh_freq_minutes)
				VALUES ('one', 'web', 1, clock_timestamp() - interval '10 minutes', 1)`,
			statement,
		} {
			if _, err := pool.Exec(ctx, sql); err != nil {
				return audit.Finding{}, fmt.Errorf("let a slot pass: %w", err)
			}
		}
		return found(ctx, pool, slotsCome)
	}
}

// capped has two owners' connectors claimed one after the other, of a type whose cap is one. An owner's own share is counted apart.
func capped(ctx context.Context, pool *pgxpool.Pool) (audit.Finding, error) {
	if err := audit.Install(ctx, pool); err != nil {
		return audit.Finding{}, err
	}
	const claim = `SELECT moves.claim(jsonb_agg(jsonb_build_object('id', d.id, 'run_id', gen_random_uuid())), clock_timestamp())
		FROM moves.lock_due('web', 1, 10) d HAVING count(*) > 0`
	for _, statement := range []string{
		`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'one', 'web', n, 0 FROM generate_series(1, 2) n`, claim, claim,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return audit.Finding{}, fmt.Errorf("claim what is capped: %w", err)
		}
	}
	return foundWith(ctx, pool, audit.Options{Caps: map[string]int{"web": 1}}, caps)
}

// found is the finding of one check.
func found(ctx context.Context, pool *pgxpool.Pool, name string) (audit.Finding, error) {
	return foundWith(ctx, pool, audit.Options{}, name)
}

func foundWith(ctx context.Context, pool *pgxpool.Pool, opts audit.Options, name string) (audit.Finding, error) {
	findings, err := audit.Audit(ctx, pool, opts)
	if err != nil {
		return audit.Finding{}, err
	}
	for _, f := range findings {
		if f.Name == name {
			return f, nil
		}
	}
	return audit.Finding{}, fmt.Errorf("there is no check %q", name)
}
