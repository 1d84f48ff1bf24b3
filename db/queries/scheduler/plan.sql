-- name: LockUnplanned :many
SELECT c.id::integer AS id, c.schedule_cron, c.time_zone::text AS time_zone, c.last_sync_at, c.planned_through,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now
FROM moves.lock_unplanned(@batch::integer) c;

-- name: Plan :one
SELECT moves.plan(@plans::jsonb)::integer;
