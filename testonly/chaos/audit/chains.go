package audit

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// chains: at rest nobody waits for an end that has come, each end is known to those who follow, and lets each of them go once.
func chains(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 1, Name: "no chain waits for what has happened",
		How: "at rest no connector whose upstreams have all ended anew waits for them; the last completed run of each that others run after is its last end; " +
			"nobody has completed for ends of another more often than that one has ended",
	}
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM run_after`).Scan(&f.Checked); err != nil {
		return f, wrap("count who runs after others", err)
	}
	rows, err := pool.Query(ctx, `
		SELECT format('connector %s waits, and all that it runs after have ended: %s', c.id, (
			SELECT string_agg(format('%s at %s', e.upstream_id, e.ended_at), ', ' ORDER BY e.upstream_id) FROM run_after_ends e WHERE e.connector_id = c.id))
		FROM connectors c
		WHERE c.run_id IS NULL AND NOT c.needs_plan AND EXISTS (SELECT FROM run_after a WHERE a.connector_id = c.id)
			AND CASE WHEN c.asks_upstreams THEN c.next_sync_at <= clock_timestamp()
				ELSE c.status = 'ACTIVE' AND c.next_sync_at IS NULL AND c.schedule_cron IS NULL AND coalesce(c.refresh_freq_minutes, 0) = 0 END
			AND NOT EXISTS (SELECT FROM run_after_ends e WHERE e.connector_id = c.id AND NOT (e.counted_no > e.used
				AND (e.max_age_minutes IS NULL OR coalesce(e.ended_for >= clock_timestamp() - make_interval(mins => e.max_age_minutes), false))))
		UNION ALL
		SELECT format('connector %s does not run after anybody, and says so, or the other way round', c.id) FROM connectors c
		WHERE c.follows <> EXISTS (SELECT FROM run_after a WHERE a.connector_id = c.id)
		UNION ALL
		-- The last in the order in which they were written: Postgres's clock may have stepped back since an earlier one.
		SELECT format('run %s of connector %s has completed at %s, and who runs after it knows of %s', r.id, r.connector_id, r.at, e.completed_at)
		FROM (SELECT DISTINCT a.upstream_id FROM run_after a) a JOIN connectors u ON u.id = a.upstream_id
			LEFT JOIN upstream_ends e ON e.connector_id = u.id
			CROSS JOIN LATERAL (SELECT v.* FROM chaos.run_events v WHERE v.connector_id = u.id AND v.what = 'verdict' AND v.status = 'completed' AND NOT v.asked
				AND v.config_version >= u.added_version ORDER BY v.seq DESC LIMIT 1) r
		WHERE r.at > coalesce(e.completed_at, '-infinity') + interval '1 second'
		UNION ALL
		SELECT format('connector %s has completed %s times for ends of others, and %s has ended %s times', a.connector_id, f.n, a.upstream_id, u.n)
		FROM run_after a CROSS JOIN LATERAL (SELECT count(*) AS n FROM connectors c JOIN runs r ON r.connector_id = c.id WHERE c.id = a.connector_id
				AND r.trigger = 'upstream' AND r.status IN ('completed', 'skipped') AND r.picked_up_at IS NOT NULL AND r.config_version >= c.added_version) f
			CROSS JOIN LATERAL (SELECT count(*) AS n FROM connectors c JOIN runs r ON r.connector_id = c.id WHERE c.id = a.upstream_id
				AND r.status IN ('completed', CASE a.accepts WHEN 'skipped' THEN 'skipped' END) AND r.parameters IS NULL AND r.config_version >= c.added_version) u
			-- Some that have cron expressions are added as if they had synced before, which is an end.
			CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM chaos.connector_events i
				WHERE i.connector_id = a.upstream_id AND i.op = 'INSERT' AND i.cron IS NOT NULL)::integer AS n) before
		WHERE f.n > u.n + before.n
		ORDER BY 1`)
	if err != nil {
		return f, wrap("look for chains that wait", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, line := range lines {
		f.violated("%s", line)
	}
	return f, wrap("look for chains that wait", err)
}
