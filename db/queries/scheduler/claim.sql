-- name: DueTypes :many
-- The types that have something due, with their caps; of `only` these, null = of all. The earliest due time of each type is the first entry of its
-- part of the index, however many connectors there are; written with EXISTS the planner may read the whole table.
SELECT t.name, t.max_concurrent_syncs
FROM connector_types t
CROSS JOIN LATERAL (
    SELECT c.due_at FROM connectors c
    WHERE c.type = t.name AND c.due_at IS NOT NULL
    ORDER BY c.due_at LIMIT 1) earliest
WHERE earliest.due_at <= (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
    AND (sqlc.narg('only')::text[] IS NULL OR t.name = ANY (sqlc.narg('only')::text[]))
ORDER BY earliest.due_at;

-- name: LockDue :many
-- Within the transaction of Claim.
SELECT c.id::integer AS id, coalesce(c.user_id, 0)::integer AS user_id, c.scope::text AS scope, c.scope_id, config_merged(c.config, c.next_parameters)::jsonb AS config,
    c.state::jsonb AS state, c.listing, c.config_version::bigint AS config_version, c.next_sync_at::timestamptz AS next_sync_at,
    c.due_reason::text AS due_reason, c.slot_at, c.schedule_cron, c.time_zone::text AS time_zone, c.dst_gap, c.dst_overlap,
    c.deadline_minutes, c.overlap::text AS overlap, c.once_per, c.catch_up::text AS catch_up, c.catch_up_most::integer AS catch_up_most,
    c.catch_up_minutes, c.refresh_freq_minutes, c.claimed_at, c.over_at, c.claimed_for, c.synced_for, c.planned_through,
    c.type::text AS type, c.condition, c.condition_met_at, c.follows::boolean AS follows, c.spread_percent::integer AS spread_percent, c.calendar, c.calendar_use::text AS calendar_use,
    -- Whether it is claimed for a run with parameters, which answers nothing else.
    (c.next_parameters IS NOT NULL)::boolean AS asked,
    -- Why it would be due if its slot were not.
    (CASE WHEN c.trigger_requested_at IS NOT NULL THEN 'manual'
        WHEN c.last_sync_at IS NOT NULL AND c.synced_version IS DISTINCT FROM c.config_version THEN 'changed' ELSE '' END)::text AS wanted,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now,
    (c.concurrency_keys IS NOT NULL OR (SELECT t.concurrency_keys IS NOT NULL FROM connector_types t WHERE t.name = @type::text))::boolean AS has_keys
FROM moves.lock_due(@type::text, @cap::integer, @batch::integer, sqlc.narg('now')::timestamptz, @refused::integer[],
    @share::integer, @most_bytes::bigint) c;

-- name: MayClaim :one
-- Whether a type has something due and, where it has a cap, a free place, or nobody who is told of the next one, which a claim sees to:
-- without the claim's transaction, its lock and its look for the next owner, which each verdict would otherwise cost twice.
SELECT (coalesce((
        SELECT c.due_at <= (SELECT clock_timestamp()) FROM connectors c
        WHERE c.type = @type::text AND c.due_at IS NOT NULL
        ORDER BY c.due_at LIMIT 1), false)
    AND (@cap::integer = 0 OR NOT EXISTS (SELECT FROM waiting_types t WHERE t.name = @type::text AND t.waits) OR
        (SELECT count(*) FROM (SELECT FROM open_runs r WHERE r.type = @type::text LIMIT @cap::integer) held) < @cap::integer))::boolean;

-- name: OwnerTurn :one
-- How far the looks for the next owner have come.
SELECT coalesce((SELECT t.served FROM owner_turns t WHERE t.type = @type::text), 0)::integer;

-- name: Claim :one
SELECT moves.claim(@claims::jsonb, @now::timestamptz)::integer;
