-- name: Services :many
-- Who is connected to this database, by the name that each service gives itself. since and last_active are null where this
-- user may not see them, and so is what kind of backend it is.
SELECT application_name::text AS name, count(*) AS connections, min(backend_start)::timestamptz AS since,
    max(state_change) AS last_active
FROM pg_stat_activity
WHERE datname = current_database() AND coalesce(backend_type, 'client backend') = 'client backend' AND application_name LIKE 'echomind-%'
GROUP BY application_name
ORDER BY application_name;

-- name: DeletedAt :one
SELECT max(deleted_at)::timestamptz AS deleted_at FROM deleted_connectors WHERE id = @id HAVING count(*) > 0;

-- name: HasRuns :one
SELECT EXISTS (SELECT 1 FROM scheduler_runs WHERE connector_id = @connector_id);
