package observability

// connector is drawn from the ledger: metrics have no connector ids, because there may be a million.
func connector() Dashboard {
	return Dashboard{
		UID: "echomind-connector", Title: "EchoMind: one connector", postgres: true,
		Description: "What the ledger says of one connector. Give Grafana a login in role echomind_reader: " +
			"configurations hold secrets, sealed as they are.",
		variables: []object{{
			"type": "query", "name": "connector", "label": "Connector", "datasource": object{"type": postgresq, "uid": "${source}"},
			"query": `SELECT id || ': ' || name || ' (' || type || ')' AS "__text", id AS "__value" FROM connectors ORDER BY id LIMIT 10000`,
			"sort":  0, "refresh": 2, "multi": false, "includeAll": false, "current": object{},
		}},
		rows: []row{
			{"Now", []panel{
				table("Now", "Its state, and what happens next. What is not due has no due time.", `
SELECT name, type, status, status_message, failure_count AS "failures in a row", due_reason AS "due because",
  next_sync_at AS "due at", last_sync_at AS "last sync", dispatched_at AS "dispatched", picked_up_at AS "picked up",
  lease_expires_at AS "lease until", stored, total AS "of", docs_analyzed AS documents
FROM connector_evidence WHERE id = $connector`),
			}},
			{"Ledger", []panel{
				table("Runs", "Each time it was due, and what came of it.", `
SELECT due_at AS due, trigger AS because, status AS verdict, reason, error_message AS error, started_at AS claimed, picked_up_at AS "picked up",
  fetched_at AS fetched, completed_at AS ended, stored, total AS "of", documents_processed AS documents, documents_failed AS failed,
  documents_deleted AS deleted, documents_unchanged AS unchanged, id::text AS session
FROM scheduler_runs WHERE connector_id = $connector AND $__timeFilter(started_at) ORDER BY started_at DESC LIMIT 500`),
			}},
			{"How long it takes", []panel{
				graph("Where the time goes", "Of each run: due until picked up, fetching, and storing what was still waiting then.", "s", Query{Text: `
SELECT completed_at AS "time", extract(epoch FROM picked_up_at - due_at)::float8 AS waiting,
  extract(epoch FROM fetched_at - picked_up_at)::float8 AS fetching, extract(epoch FROM completed_at - fetched_at)::float8 AS storing
FROM scheduler_runs WHERE connector_id = $connector AND status IN ('completed', 'skipped') AND $__timeFilter(completed_at) ORDER BY completed_at`}),
				graph("Documents", "Of each run.", "none", Query{Text: `
SELECT completed_at AS "time", documents_processed AS processed, documents_failed AS failed, documents_deleted AS deleted
FROM scheduler_runs WHERE connector_id = $connector AND status = 'completed' AND $__timeFilter(completed_at) ORDER BY completed_at`}),
			}},
			{"Verdicts and documents", []panel{
				table("Verdicts", "Within the time shown.", `
SELECT status AS verdict, reason, count(*) AS runs, max(started_at) AS latest
FROM scheduler_runs WHERE connector_id = $connector AND $__timeFilter(started_at) GROUP BY status, reason ORDER BY runs DESC`),
				table("Documents by state", "As they are stored now.", `
SELECT status, count(*) AS documents, sum(chunk_count) AS chunks, max(updated_at) AS latest
FROM documents WHERE connector_id = $connector GROUP BY status ORDER BY documents DESC`),
				table("Documents that failed", "They are fetched again at the next sync.", `
SELECT source_id AS document, error, updated_at AS since
FROM documents WHERE connector_id = $connector AND status = 'failed' ORDER BY updated_at DESC LIMIT 200`),
			}},
		},
	}
}
