-- name: IsFull :one
-- Whether Postgres takes no more connections, so that a worker which has lost its own cannot renew its lease.
SELECT count(*) >= current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer AS is_full
FROM pg_stat_activity WHERE datid IS NOT NULL;

-- name: LockAbandoned :many
-- SYNCING with a lease that has run out; or, for a subscriber without the worker kit, with neither lease
-- nor drain_seq since longer than foreign_timeout. Not one of which everything is stored: it waits for semantic, or to be
-- found.
SELECT c.id, c.type, c.user_id, c.scope, c.scope_id, c.config, c.state, c.config_version, c.chunking_session,
    c.failure_count, c.max_retries, c.lease_expires_at,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now
FROM connectors c
JOIN scheduler_runs r ON r.id = c.chunking_session
WHERE c.chunking_session IS NOT NULL AND c.status = 'SYNCING' AND r.stored IS DISTINCT FROM r.total
    AND (c.lease_expires_at < (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
        OR (c.lease_expires_at IS NULL AND r.drain_seq IS NULL
            AND coalesce(r.picked_up_at, r.started_at)
                < (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())) - @foreign_timeout::interval))
ORDER BY c.id
LIMIT @batch::integer
FOR UPDATE OF c SKIP LOCKED;

-- name: ClaimAgain :exec
-- SYNCING -> PENDING under a new session; the database's trigger ends the old run.
UPDATE connectors c
SET status = 'PENDING', chunking_session = k.session, dispatched_at = @now::timestamptz, dispatches = 1,
    lease_owner = NULL, lease_expires_at = NULL, failure_count = failure_count + 1,
    status_message = 'worker lost: its lease ran out'
FROM (SELECT unnest(@ids::integer[]) AS id, unnest(@sessions::uuid[]) AS session) k
WHERE c.id = k.id AND c.status = 'SYNCING';

-- name: FailAbandoned :exec
-- SYNCING -> ERROR, or DISABLED, by the failure policy.
UPDATE connectors c
SET status = 'ERROR', due_reason = 'rescue', status_message = 'worker lost again: its lease ran out',
    chunking_session = NULL, lease_owner = NULL, lease_expires_at = NULL
WHERE c.id = ANY(@ids::integer[]) AND c.status = 'SYNCING';
