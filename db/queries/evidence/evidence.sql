-- name: Evidence :one
SELECT * FROM connector_evidence WHERE id = @id;

-- name: SeenEvidence :one
-- The same of a connector that the viewer sees.
SELECT * FROM api.evidence WHERE id = @id;

-- name: Past :many
-- The latest runs of a connector.
SELECT status, reason, error_message, missed_count, completed_at, waits_until, total, stored, trigger FROM scheduler_runs WHERE connector_id = @connector_id
ORDER BY started_at DESC, id
LIMIT @page::integer;

-- name: SeenPast :many
SELECT status, reason, error_message, missed_count, completed_at, waits_until, total, stored, trigger FROM api.runs WHERE connector_id = @connector_id
    AND started_at >= (SELECT s.at FROM api.seen_since(@connector_id) s)
ORDER BY started_at DESC, id
LIMIT @page::integer;

-- name: Calendar :one
SELECT time_zone, entries FROM calendars WHERE name = @name;

-- name: Services :many
-- Who is connected to this database, by the name that each service gives itself. last_active is null where this user may not see it.
SELECT application_name::text AS name, max(state_change) AS last_active
FROM pg_stat_activity
WHERE datname = current_database() AND coalesce(backend_type, 'client backend') = 'client backend' AND application_name LIKE 'echomind-%'
GROUP BY application_name
ORDER BY application_name;
