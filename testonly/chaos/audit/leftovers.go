package audit

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// leftover is what a sweep must have taken, by what it is: each query gives the number looked at, how many should be
// gone, and one of them. Runs that are not swept yet are left out.
var leftoverQueries = []struct{ what, query string }{
	{"chunks that no document names", `
		SELECT count(*), count(*) FILTER (WHERE bad), coalesce(min(key) FILTER (WHERE bad), '') FROM (
			SELECT format('try %s, first_no %s, document %s', k.try_id, k.first_no, k.document_id) AS key,
				d.id IS NULL AND NOT EXISTS (SELECT FROM open_runs r WHERE r.try_id = k.try_id)
					AND NOT EXISTS (SELECT FROM unswept_runs u WHERE u.try_id = k.try_id)
					AND NOT EXISTS (SELECT FROM unnamed_chunks n
						WHERE n.try_id = k.try_id AND n.first_no = k.first_no AND n.document_id = k.document_id) AS bad
			FROM chunks k
			LEFT JOIN documents d ON d.id = k.document_id AND d.try_id = k.try_id AND d.first_no = k.first_no) x`},
	{"documents that are deleted or were never whole", `
		SELECT count(*), count(*) FILTER (WHERE bad), coalesce(min(key) FILTER (WHERE bad), '') FROM (
			SELECT format('connector %s, %s (%s)', d.connector_id, d.source_id, d.status) AS key,
				d.status IN ('deleted', 'partial')
					AND NOT EXISTS (SELECT FROM open_runs r WHERE r.connector_id = d.connector_id)
					AND NOT EXISTS (SELECT FROM unswept_runs u WHERE u.connector_id = d.connector_id) AS bad
			FROM documents d) x`},
	{"documents of connectors that are gone", `
		SELECT count(*), count(*) FILTER (WHERE bad), coalesce(min(key) FILTER (WHERE bad), '') FROM (
			SELECT format('connector %s, %s', d.connector_id, d.source_id) AS key,
				NOT EXISTS (SELECT FROM connectors c WHERE c.id = d.connector_id)
					AND NOT EXISTS (SELECT FROM deleted_connectors g WHERE g.id = d.connector_id) AS bad
			FROM documents d) x`},
	{"counted messages of tries that are over", ofTries("run_messages")},
	{"checkpoints of tries that are over", ofTries("run_checkpoints")},
	{"tries of messages of tries that are over", ofTries("message_tries")},
	{"sightings that no checkpoint speaks of", `
		SELECT (SELECT count(*) FROM runs WHERE try_id IS NOT NULL), count(*), coalesce(min(s.try_id::text), '')
		FROM sightings s
		WHERE NOT EXISTS (SELECT FROM open_runs r WHERE r.try_id = s.try_id)
			AND NOT EXISTS (SELECT FROM unswept_runs u WHERE u.connector_id = s.connector_id)
			AND NOT EXISTS (SELECT FROM deleted_connectors g WHERE g.id = s.connector_id)
			AND NOT EXISTS (SELECT FROM connectors c
				WHERE c.id = s.connector_id AND c.listing->'seen' ? s.try_id::text)`},
	{"counts of a connector's documents that are wrong", `
		SELECT count(*), count(*) FILTER (WHERE bad), coalesce(min(key) FILTER (WHERE bad), '') FROM (
			SELECT format('connector %s', n.connector_id) AS key, sum(n.documents) <> 0 OR sum(n.bytes) <> 0 AS bad
			FROM (SELECT connector_id, config_version, documents, bytes FROM document_counts UNION ALL
				SELECT connector_id, config_version, -count(*) FILTER (WHERE chunk_count > 0),
					-sum(text_bytes + octet_length(title) + octet_length(url) + octet_length(array_to_string(links, '')))
				FROM documents GROUP BY 1, 2) n GROUP BY n.connector_id, n.config_version) x`},
	{"places of connectors in lists that are wrong", `
		SELECT count(*), count(*) FILTER (WHERE bad), coalesce(min(key) FILTER (WHERE bad), '') FROM (
			SELECT format('connector %s', coalesce(c.id, f.connector_id)) AS key, (f.connector_id, f.type, f.seen_by, f.fresh_until) IS DISTINCT FROM
				(c.id, c.type, api.webhook_place(c.type, c.user_id, c.scope, c.scope_id), connector_fresh_until(c.fresh_within_minutes, c.last_sync_at, c.created_at)) AS bad
			FROM connectors c FULL JOIN connector_freshness f ON f.connector_id = c.id) x`},
	{"places of connectors at fault in lists that are wrong", `
		SELECT count(*), count(*) FILTER (WHERE bad), coalesce(min(key) FILTER (WHERE bad), '') FROM (
			SELECT format('connector %s', coalesce(c.id, f.connector_id)) AS key, (f.connector_id, f.status, f.seen_by, f.fresh_until) IS DISTINCT FROM
				(c.id, c.status, api.webhook_place(c.type, c.user_id, c.scope, c.scope_id), connector_fresh_until(c.fresh_within_minutes, c.last_sync_at, c.created_at)) AS bad
			FROM (SELECT * FROM connectors WHERE status IN ('ERROR', 'DISABLED')) c FULL JOIN connector_faults f ON f.connector_id = c.id) x`},
	{"runs that nobody has swept", `
		SELECT (SELECT count(*) FROM runs WHERE try_id IS NOT NULL), count(*), coalesce(min(u.run_id::text), '')
		FROM unswept_runs u WHERE NOT EXISTS (SELECT FROM runs r WHERE r.id = u.run_id)`},
}

func ofTries(table string) string {
	return `SELECT (SELECT count(*) FROM runs WHERE try_id IS NOT NULL), count(*), coalesce(min(m.try_id::text), '')
		FROM ` + table + ` m
		WHERE NOT EXISTS (SELECT FROM open_runs r WHERE r.try_id = m.try_id)
			AND NOT EXISTS (SELECT FROM unswept_runs u WHERE u.try_id = m.try_id)`
}

func leftovers(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 5, Name: "nothing is left behind",
		How: "no chunk without its document, no part, deleted document, counted message, checkpoint, sighting or try of a run that is over; each connector has its place in lists",
	}
	for _, l := range leftoverQueries {
		var looked, bad int
		var example string
		if err := pool.QueryRow(ctx, l.query).Scan(&looked, &bad, &example); err != nil {
			return f, wrap("look for "+l.what, err)
		}
		f.Checked += looked
		if bad > 0 {
			f.violated("%d %s, such as %s", bad, l.what, example)
		}
	}
	return f, nil
}
