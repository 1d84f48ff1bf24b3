-- name: TypeLoad :one
-- What the connectors of a type keep waiting or at work. A null moment counts nothing.
SELECT
    (SELECT count(*) FROM connectors a WHERE a.type = @type AND a.next_sync_at < sqlc.narg('due_at')::timestamptz)
        AS due_before,
    (SELECT count(*) FROM open_runs r WHERE r.type = @type) AS in_flight,
    (SELECT count(*) FROM open_runs r WHERE r.type = @type AND r.picked_up_at IS NULL
        AND r.dispatched_at < sqlc.narg('dispatched_at')::timestamptz) AS pending_before,
    (SELECT count(*) FROM open_runs r JOIN workers w ON w.id = r.worker_id WHERE r.type = @type
        AND w.expires_at > (SELECT clock_timestamp())) AS fetching,
    (SELECT t.max_concurrent_syncs FROM connector_types t WHERE t.name = @type) AS type_cap;

-- name: DispatchedSince :one
-- Whether anything was claimed since a moment: the sign of life of a scheduler that works.
SELECT EXISTS (SELECT 1 FROM open_runs r WHERE r.dispatched_at >= @since::timestamptz)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.status <> 'missed' AND r.completed_at >= @since::timestamptz
        AND r.started_at >= @since::timestamptz);

-- name: Lease :one
-- Until when the worker of a run has its lease; no row where none is kept.
SELECT w.expires_at FROM open_runs r JOIN workers w ON w.id = r.worker_id WHERE r.id = @run_id;

-- name: Services :many
-- Who is connected to this database, by the name that each service gives itself. last_active is null where this
-- user may not see it.
SELECT application_name::text AS name, count(*) AS connections, min(backend_start)::timestamptz AS since,
    max(state_change) AS last_active
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND application_name LIKE 'echomind-%'
GROUP BY application_name
ORDER BY application_name;

-- name: DeletedAt :one
SELECT max(deleted_at)::timestamptz AS deleted_at FROM deleted_connectors WHERE id = @id HAVING count(*) > 0;

-- name: HasRuns :one
SELECT EXISTS (SELECT 1 FROM scheduler_runs WHERE connector_id = @connector_id);
