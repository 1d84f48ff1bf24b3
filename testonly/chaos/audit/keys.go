package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// keys says whether a claim has brought more runs of a concurrency key in flight than its limit, and whether what is left of places and of those that
// wait is what open runs and connectors say. A limit that was just lowered ends nothing, and neither does a rescue: what comes in at a claim counts.
func (h *history) keys(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 2, Name: "no key over its limit",
		How: "a claim never brings more runs of a concurrency key in flight than its limit; places are those of open runs, and those that wait are known",
	}
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM chaos.key_events WHERE most IS NOT NULL AND n > 0`).Scan(&f.Checked); err != nil {
		return f, fmt.Errorf("count the claims of keys: %w", err)
	}
	rows, err := pool.Query(ctx, `
		SELECT format('event %s: %s runs of key %s are in flight, and its limit is %s', e.seq, e.held, e.key, e.most)
		FROM (SELECT k.*, sum(n) OVER (PARTITION BY k.key ORDER BY k.seq) AS held FROM chaos.key_events k) e WHERE e.n > 0 AND e.held > e.most
		UNION ALL SELECT format('run %s is over, and has a place of key %s', p.run_id, p.key) FROM key_places p
		WHERE NOT EXISTS (SELECT FROM open_runs r WHERE r.id = p.run_id)
		UNION ALL SELECT format('run %s of connector %s has lost its places of keys', r.id, r.connector_id) FROM open_runs r
		WHERE r.has_keys AND NOT EXISTS (SELECT FROM key_places p WHERE p.run_id = r.id)
		UNION ALL SELECT format('connector %s waits for key %s, and no look knows it', c.id, c.waits_for_key) FROM connectors c
		WHERE c.waits_for_key IS NOT NULL AND NOT EXISTS (SELECT FROM key_waiters w WHERE w.connector_id = c.id AND w.key = c.waits_for_key)
		UNION ALL SELECT format('connector %s does not wait for key %s, and looks believe so', w.connector_id, w.key) FROM key_waiters w
		WHERE NOT EXISTS (SELECT FROM connectors c WHERE c.id = w.connector_id AND c.waits_for_key = w.key)`)
	if err != nil {
		return f, fmt.Errorf("look at the keys: %w", err)
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return f, fmt.Errorf("look at the keys: %w", err)
	}
	for _, what := range wrong {
		f.violated("%s", what)
	}
	return f, nil
}
