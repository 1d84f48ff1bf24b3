-- name: HandOn :one
SELECT moves.hand_on(@batch::integer)::integer;

-- name: LockChained :many
-- Within the transaction that writes down what becomes of them. The columns are those of LockDue: both are decided about alike.
SELECT c.id::integer AS id, c.user_id::integer AS user_id, c.scope::text AS scope, c.scope_id, '{}'::jsonb AS config,
    '{}'::jsonb AS state, NULL::jsonb AS listing, c.config_version::bigint AS config_version, c.next_sync_at::timestamptz AS next_sync_at,
    c.due_reason::text AS due_reason, c.slot_at, c.schedule_cron, c.time_zone::text AS time_zone, c.dst_gap, c.dst_overlap,
    c.deadline_minutes, c.overlap::text AS overlap, c.once_per, c.catch_up::text AS catch_up, c.catch_up_most::integer AS catch_up_most,
    c.catch_up_minutes, c.refresh_freq_minutes, c.claimed_at, c.over_at, c.claimed_for, c.synced_for, c.planned_through,
    c.type::text AS type, c.condition, c.condition_met_at, c.upstreams_met_at, c.spread_percent::integer AS spread_percent, c.calendar, c.calendar_use::text AS calendar_use,
    false AS asked,
    (CASE WHEN c.last_sync_at IS NOT NULL AND c.synced_version IS DISTINCT FROM c.config_version THEN 'changed' ELSE '' END)::text AS wanted,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now
FROM moves.lock_chained(@batch::integer, sqlc.narg('now')::timestamptz) c;

-- name: Upstreams :many
-- Of connectors that the transaction has locked, in a statement of its own: it sees all that ended before.
SELECT k.id::integer AS id, u.met::boolean AS met, coalesce(u.upstream, 0)::integer AS upstream, u.gives_up_at
FROM unnest(@ids::integer[]) k(id), LATERAL (SELECT * FROM connectors l WHERE l.id = k.id OFFSET 0) c,
    LATERAL moves.upstreams_of(c.id, c.due_reason, c.next_sync_at, (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))) u;

-- name: NoteUpstreamsMet :one
SELECT moves.note_upstreams_met(@ids::integer[])::integer;

-- name: LookAgain :exec
SELECT moves.look_again(@ids::integer[], @moments::timestamptz[]);
