-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: DueTypes :many
-- The types of which something is due, with their caps. The earliest due time of each type is the first entry of its
-- part of the index, however many connectors there are; written with EXISTS the planner may read the whole table.
SELECT t.name, t.max_concurrent_syncs
FROM connector_types t
CROSS JOIN LATERAL (
    SELECT c.next_sync_at FROM connectors c
    WHERE c.type = t.name AND c.next_sync_at IS NOT NULL
    ORDER BY c.next_sync_at LIMIT 1) earliest
WHERE earliest.next_sync_at <= (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
ORDER BY t.name;

-- name: LockType :exec
-- Claimers of one capped type take turns: without it two of them count the same free places.
SELECT pg_advisory_xact_lock(hashtext('echomind.claim'), hashtext(@type::text));

-- name: BoundTransaction :exec
SELECT set_config('lock_timeout', @lock_timeout::text, true),
    set_config('idle_in_transaction_session_timeout', @idle_timeout::text, true);

-- name: InFlight :one
SELECT count(*) FROM connectors WHERE type = @type AND chunking_session IS NOT NULL;

-- name: LockDue :many
SELECT id, user_id, scope, scope_id, config, state, config_version, next_sync_at, due_reason, slot_at,
    schedule_cron, time_zone, planned_through,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now
FROM connectors
WHERE type = @type AND next_sync_at <= (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
ORDER BY next_sync_at
LIMIT @batch::integer
FOR UPDATE SKIP LOCKED;

-- name: CloseStrayRuns :exec
-- A connector at rest has no open run; one that stands all the same must not stop the batch.
UPDATE scheduler_runs SET status = 'superseded', reason = 'claimed again', completed_at = clock_timestamp(),
    new_state = NULL
WHERE connector_id = ANY(@ids::integer[]) AND status = 'running';

-- name: RecordMissed :exec
INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, slot, slot_last, missed_count, due_at,
    started_at, completed_at, status, reason, config_version, swept_at)
SELECT gen_random_uuid(), m.id, @job_name, 'schedule', m.first, m.last, m.count, m.first,
    clock_timestamp(), clock_timestamp(), 'missed', 'passed before it could be claimed', 0, clock_timestamp()
FROM (SELECT unnest(@ids::integer[]) AS id, unnest(@firsts::timestamptz[]) AS first,
    unnest(@lasts::timestamptz[]) AS last, unnest(@counts::integer[]) AS count) m
ON CONFLICT DO NOTHING;

-- name: OpenRuns :exec
-- A slot that already has its row is claimed without one, so that a ledger conflict never stops the batch.
INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, slot, due_at, started_at, config_version)
SELECT r.session, r.id, @job_name, r.reason,
    CASE WHEN r.reason = 'schedule' AND NOT EXISTS (
        SELECT 1 FROM scheduler_runs o WHERE o.connector_id = r.id AND o.slot = r.slot) THEN r.slot END,
    r.due_at, clock_timestamp(), r.config_version
FROM (SELECT unnest(@ids::integer[]) AS id, unnest(@sessions::uuid[]) AS session,
    unnest(@reasons::text[]) AS reason, nullif(unnest(@slots::timestamptz[]), '0001-01-01 00:00:00+00') AS slot,
    unnest(@due_ats::timestamptz[]) AS due_at, unnest(@config_versions::bigint[]) AS config_version) r;

-- name: Claim :one
-- ACTIVE, ERROR -> PENDING for rows that this transaction has locked.
WITH claimed AS (
    UPDATE connectors c
    SET status = 'PENDING', chunking_session = k.session, dispatched_at = @now::timestamptz, dispatches = 1,
        next_sync_at = NULL, due_reason = NULL, slot_at = NULL, needs_plan = false,
        planned_through = CASE WHEN k.reason = 'schedule' AND c.schedule_cron IS NOT NULL
            THEN coalesce(k.slot, c.planned_through) ELSE c.planned_through END
    FROM (SELECT unnest(@ids::integer[]) AS id, unnest(@sessions::uuid[]) AS session,
        unnest(@reasons::text[]) AS reason, nullif(unnest(@slots::timestamptz[]), '0001-01-01 00:00:00+00') AS slot) k
    WHERE c.id = k.id AND c.status IN ('ACTIVE', 'ERROR')
    RETURNING 1)
SELECT count(*) FROM claimed;
