-- name: DueConditions :many
-- The conditions that something due asks, the longest due first: of each the first entry of its part of the index.
SELECT c.name, c.timeout_ms FROM conditions c
CROSS JOIN LATERAL (
    SELECT a.next_sync_at FROM connectors a WHERE a.condition = c.name AND a.asks_condition
    ORDER BY a.next_sync_at LIMIT 1) earliest
WHERE earliest.next_sync_at <= (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
ORDER BY earliest.next_sync_at LIMIT @most::integer;

-- name: Asking :many
-- Who asks a condition that is due, the longest due first, and none of `refused`; nothing is locked. At least one, and no more than have so many bytes of
-- configurations together.
SELECT c.id::integer AS id, coalesce(c.user_id, 0)::integer AS user_id, c.config::jsonb AS config, c.config_version::bigint AS config_version,
    c.next_sync_at::timestamptz AS next_sync_at, c.may_use::boolean AS may_use
FROM (
    SELECT a.*, coalesce(a.user_id = ANY (q.user_ids), true) AS may_use,
        sum(octet_length(a.config::text)) OVER (ORDER BY a.next_sync_at, a.id) - octet_length(a.config::text) AS bytes_before
    FROM conditions q, LATERAL (
        SELECT k.id, k.user_id, k.config, k.config_version, k.next_sync_at FROM connectors k
        WHERE k.condition = q.name AND k.asks_condition AND k.next_sync_at <= (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
            AND (@refused::integer[] IS NULL OR k.id <> ALL (@refused::integer[]))
        ORDER BY k.next_sync_at LIMIT @batch::integer) a
    WHERE q.name = @condition::text) c
WHERE c.bytes_before < @most_bytes::bigint;

-- name: LockAsking :many
-- Within the transaction that writes the answers. The columns are those of LockDue: both are decided about alike.
SELECT c.id::integer AS id, coalesce(c.user_id, 0)::integer AS user_id, c.scope::text AS scope, c.scope_id, '{}'::jsonb AS config,
    '{}'::jsonb AS state, NULL::jsonb AS listing, c.config_version::bigint AS config_version, c.next_sync_at::timestamptz AS next_sync_at,
    c.due_reason::text AS due_reason, c.slot_at, c.schedule_cron, c.time_zone::text AS time_zone, c.dst_gap, c.dst_overlap,
    c.deadline_minutes, c.overlap::text AS overlap, c.once_per, c.catch_up::text AS catch_up, c.catch_up_most::integer AS catch_up_most,
    c.catch_up_minutes, c.refresh_freq_minutes, c.claimed_at, c.over_at, c.claimed_for, c.synced_for, c.planned_through,
    c.type::text AS type, c.condition, c.condition_met_at, c.follows::boolean AS follows, c.spread_percent::integer AS spread_percent, c.calendar, c.calendar_use::text AS calendar_use,
    false AS asked,
    (CASE WHEN c.last_sync_at IS NOT NULL AND c.synced_version IS DISTINCT FROM c.config_version THEN 'changed' ELSE '' END)::text AS wanted,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now,
    false AS has_keys
FROM moves.lock_asking(@ids::integer[], sqlc.narg('now')::timestamptz) c;

-- name: NoteMet :one
SELECT moves.note_met(@ids::integer[])::integer;

-- name: FailConditions :one
SELECT moves.fail_conditions(@failures::jsonb)::integer;
