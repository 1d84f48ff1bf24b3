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
			SELECT format('session %s, first_no %s, document %s', k.session, k.first_no, k.document_id) AS key,
				d.id IS NULL AND NOT EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.id = k.session AND r.swept_at IS NULL)
					AND NOT EXISTS (SELECT 1 FROM scheduler_runs r JOIN deleted_connectors g ON g.id = r.connector_id
						WHERE r.id = k.session) AS bad
			FROM chunks k
			LEFT JOIN documents d ON d.id = k.document_id AND d.session = k.session AND d.first_no = k.first_no) x`},
	{"documents that are deleted or were never whole", `
		SELECT count(*), count(*) FILTER (WHERE bad), coalesce(min(key) FILTER (WHERE bad), '') FROM (
			SELECT format('connector %s, %s (%s)', d.connector_id, d.source_id, d.status) AS key,
				d.status IN ('deleted', 'partial') AND NOT EXISTS (
					SELECT 1 FROM scheduler_runs r WHERE r.connector_id = d.connector_id AND r.swept_at IS NULL) AS bad
			FROM documents d) x`},
	{"documents of connectors that are gone", `
		SELECT count(*), count(*) FILTER (WHERE bad), coalesce(min(key) FILTER (WHERE bad), '') FROM (
			SELECT format('connector %s, %s', d.connector_id, d.source_id) AS key,
				NOT EXISTS (SELECT 1 FROM connectors c WHERE c.id = d.connector_id)
					AND NOT EXISTS (SELECT 1 FROM deleted_connectors g WHERE g.id = d.connector_id) AS bad
			FROM documents d) x`},
	{"counted messages of runs that are over", `
		SELECT (SELECT count(*) FROM scheduler_runs WHERE swept_at IS NOT NULL), count(*), coalesce(min(m.session::text), '')
		FROM run_messages m
		WHERE NOT EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.id = m.session AND r.swept_at IS NULL)`},
	{"checkpoints of runs that are over", `
		SELECT (SELECT count(*) FROM scheduler_runs WHERE swept_at IS NOT NULL), count(*), coalesce(min(m.session::text), '')
		FROM run_checkpoints m
		WHERE NOT EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.id = m.session AND r.swept_at IS NULL)`},
	{"sightings that no checkpoint speaks of", `
		SELECT (SELECT count(*) FROM scheduler_runs WHERE swept_at IS NOT NULL), count(*), coalesce(min(s.session::text), '')
		FROM sightings s
		WHERE NOT EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.connector_id = s.connector_id AND r.swept_at IS NULL)
			AND NOT EXISTS (SELECT 1 FROM deleted_connectors g WHERE g.id = s.connector_id)
			AND NOT EXISTS (SELECT 1 FROM connectors c
				WHERE c.id = s.connector_id AND c.state->'$kit'->'seen' ? s.session::text)`},
	{"tries of messages of runs that are over", `
		SELECT (SELECT count(*) FROM scheduler_runs WHERE swept_at IS NOT NULL), count(*), coalesce(min(m.session::text), '')
		FROM message_tries m
		WHERE NOT EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.id = m.session AND r.swept_at IS NULL)`},
}

func leftovers(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 5, Name: "nothing is left behind",
		How: "no chunk without its document, no part, deleted document, counted message, checkpoint, sighting or try of a run that is over",
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
