-- name: Verdicts :many
-- Runs that ended since the last look, for the metrics; a page of them.
SELECT r.id, r.job_name, r.status, r.reason, r.due_at, r.completed_at
FROM scheduler_runs r
WHERE r.status <> 'running' AND r.completed_at > @since::timestamptz AND r.completed_at <= @until::timestamptz
ORDER BY r.completed_at
LIMIT @page::integer;

-- name: ConnectorsByStatus :many
-- Each part has an index of its own, so that the many connectors at rest cost nothing.
SELECT type, status, count(*) FROM connectors WHERE chunking_session IS NOT NULL GROUP BY type, status
UNION ALL
SELECT type, status, count(*) FROM connectors WHERE status IN ('ERROR', 'DISABLED') GROUP BY type, status;

-- name: Backlog :many
-- What is due and not claimed, what waits to be picked up, and which leases have run out, by type; ages in seconds.
SELECT t.name, due.count AS due, due.age AS oldest_due, pending.age AS oldest_pending, expired.count AS expired
FROM connector_types t
CROSS JOIN (SELECT clock_timestamp() AS now) clock
CROSS JOIN LATERAL (
    SELECT count(*), coalesce(extract(epoch FROM clock.now - min(next_sync_at)), 0)::float8 AS age FROM connectors
    WHERE type = t.name AND next_sync_at IS NOT NULL AND next_sync_at <= (SELECT clock_timestamp())) due
CROSS JOIN LATERAL (
    SELECT coalesce(extract(epoch FROM clock.now - min(dispatched_at)), 0)::float8 AS age FROM connectors
    WHERE type = t.name AND status = 'PENDING' AND chunking_session IS NOT NULL) pending
CROSS JOIN LATERAL (
    SELECT count(*) FROM connectors WHERE type = t.name AND status = 'SYNCING' AND chunking_session IS NOT NULL
        AND lease_expires_at < (SELECT clock_timestamp())) expired;

-- name: Draining :one
-- The runs whose worker is done and whose documents are queued, and since when the oldest is, in seconds.
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(r.fetched_at)), 0)::float8 AS oldest
FROM connectors c
JOIN scheduler_runs r ON r.id = c.chunking_session
WHERE c.chunking_session IS NOT NULL AND c.status = 'SYNCING' AND c.lease_expires_at IS NULL AND r.drain_seq IS NOT NULL;

-- name: Server :one
-- What Postgres itself says; ages in seconds. Without the right to read others' activity their transactions count as none.
SELECT coalesce(count(*), 0)::bigint AS connections, coalesce(max(setting::bigint), 0)::bigint AS max_connections,
    coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::float8 AS oldest_transaction,
    coalesce(pg_database_size(current_database()), 0)::bigint AS bytes
FROM pg_stat_activity a, pg_settings s
WHERE a.backend_type = 'client backend' AND s.name = 'max_connections';
