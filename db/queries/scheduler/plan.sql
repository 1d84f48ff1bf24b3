-- name: LockUnplanned :many
SELECT id, schedule_cron, time_zone, last_sync_at, planned_through, created_at,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now
FROM connectors
WHERE needs_plan
ORDER BY id
LIMIT @batch::integer
FOR UPDATE SKIP LOCKED;

-- name: Plan :exec
UPDATE connectors
SET needs_plan = false, next_sync_at = @next_sync_at, due_reason = @due_reason, slot_at = @slot_at,
    planned_through = @planned_through,
    status_message = coalesce(sqlc.narg('problem'), CASE WHEN status = 'ACTIVE' THEN NULL ELSE status_message END)
WHERE id = @id AND needs_plan;
