-- name: Verdicts :many
-- Runs that ended since the last look, for the metrics; a page of them.
SELECT r.type, r.status, r.reason, r.due_at, r.completed_at, (r.missed_count IS NULL)::boolean AS ran
FROM runs r
WHERE r.completed_at > @since::timestamptz AND r.completed_at <= @until::timestamptz
ORDER BY r.completed_at
LIMIT @page::integer;

-- name: ConnectorsByStatus :many
-- One walk over what is in flight, and one over what is at fault, so that the many connectors at rest cost nothing. Of those in
-- flight also how many drain: their worker is done, and their documents are queued; and since when the oldest does, in seconds.
SELECT type, (CASE WHEN picked_up_at IS NULL THEN 'PENDING' ELSE 'SYNCING' END)::text AS status, count(*),
    count(drain_seq) AS draining,
    coalesce(extract(epoch FROM clock_timestamp() - min(fetched_at) FILTER (WHERE drain_seq IS NOT NULL)), 0)::float8 AS oldest_drain
FROM open_runs GROUP BY 1, 2
UNION ALL
SELECT type, status, count(*), 0, 0 FROM connectors WHERE at_fault GROUP BY type, status;

-- name: Backlog :many
-- What is due and not claimed, what waits to be picked up, what is put off longest, and which leases have run out, by type; ages in seconds.
SELECT t.name, (due.count + coalesce(asking.count, 0))::bigint AS due, greatest(due.age, asking.age)::float8 AS oldest_due, pending.age AS oldest_pending, put_off.age AS longest_put_off, late.count AS late, coalesce(expired.count, 0)::bigint AS expired
FROM connector_types t
CROSS JOIN (SELECT clock_timestamp() AS now) clock
CROSS JOIN LATERAL (
    SELECT count(*), coalesce(extract(epoch FROM clock.now - min(due_at)), 0)::float8 AS age FROM connectors
    WHERE type = t.name AND due_at IS NOT NULL AND due_at <= (SELECT clock_timestamp())) due
-- What is due and waits for the answer of its condition.
LEFT JOIN (
    SELECT a.type, count(*), extract(epoch FROM clock_timestamp() - min(a.next_sync_at))::float8 AS age FROM conditions q
    JOIN connectors a ON a.condition = q.name AND a.asks_condition AND a.next_sync_at <= (SELECT clock_timestamp())
    GROUP BY a.type) asking ON asking.type = t.name
CROSS JOIN LATERAL (
    SELECT coalesce(extract(epoch FROM clock.now - min(dispatched_at)), 0)::float8 AS age FROM open_runs
    WHERE type = t.name AND picked_up_at IS NULL) pending
CROSS JOIN LATERAL (
    SELECT coalesce(extract(epoch FROM clock.now - min(put_off_since)), 0)::float8 AS age FROM connectors
    WHERE type = t.name AND put_off_since IS NOT NULL) put_off
CROSS JOIN LATERAL (
    SELECT count(*) FROM (SELECT FROM connector_freshness WHERE type = t.name AND fresh_until < (SELECT clock_timestamp()) LIMIT 100000) l) late
LEFT JOIN (
    SELECT r.type, count(*) FROM workers w JOIN open_runs r ON r.worker_id = w.id
    WHERE w.expires_at < (SELECT clock_timestamp()) GROUP BY r.type) expired ON expired.type = t.name;

-- name: Server :one
-- What Postgres itself says; ages in seconds. Without the right to read others' activity their transactions count as none.
SELECT coalesce(count(*), 0)::bigint AS connections, coalesce(max(setting::bigint), 0)::bigint AS max_connections,
    coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::float8 AS oldest_transaction,
    coalesce(pg_database_size(current_database()), 0)::bigint AS bytes
FROM pg_stat_activity a, pg_settings s
WHERE a.backend_type = 'client backend' AND s.name = 'max_connections';

-- name: Now :one
SELECT clock_timestamp()::timestamptz;
