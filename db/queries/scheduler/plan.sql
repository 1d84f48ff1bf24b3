-- name: SetRefreshDefaults :exec
UPDATE refresh_defaults d SET minutes = n.minutes FROM unnest(@types::text[], @minutes::integer[]) n(type, minutes) WHERE d.type = n.type AND d.minutes <> n.minutes;

-- name: LockUnplanned :many
SELECT c.id::integer AS id, c.schedule_cron, c.run_at_once::boolean AS run_at_once, c.time_zone::text AS time_zone, c.dst_gap, c.dst_overlap, c.last_sync_at, c.due_reason, c.planned_through,
    c.deadline_minutes, c.overlap::text AS overlap, c.once_per, c.catch_up::text AS catch_up, c.catch_up_most::integer AS catch_up_most,
    c.catch_up_minutes, c.claimed_at, c.over_at, c.claimed_for, c.synced_for, c.calendar, c.calendar_use::text AS calendar_use,
    coalesce(c.user_id, 0)::integer AS user_id, c.type::text AS type,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now
FROM moves.lock_unplanned(@batch::integer, @refused::integer[]) c;

-- name: Plan :one
SELECT moves.plan(@plans::jsonb)::integer;

-- name: LockPassed :many
SELECT s.id::bigint AS id, s.connector_id::integer AS connector_id, s.schedule_cron::text AS schedule_cron,
    s.time_zone::text AS time_zone, s.dst_gap, s.dst_overlap, s.after::timestamptz AS after, s.through::timestamptz AS through,
    s.once_per, s.completed::timestamptz[] AS completed, s.reason::text AS reason,
    s.calendar, s.calendar_use, s.calendar_version, s.type::text AS type, coalesce(s.user_id, 0)::integer AS user_id
FROM moves.lock_passed(@batch::integer, @refused::bigint[]) s;

-- name: MissPassed :one
SELECT moves.miss_passed(@passed::jsonb)::integer;
