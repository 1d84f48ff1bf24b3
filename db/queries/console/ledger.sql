-- name: ListRuns :many
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id
ORDER BY started_at DESC, id
LIMIT @page::integer;

-- name: RunsAnswering :many
-- Of the latest runs of a connector those that read the source at or after a moment, or were asked to: claimed
-- since then, or picked up with a trigger that was asked for since then. Oldest first.
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id::integer AND id IN (
    SELECT r.id FROM scheduler_runs r WHERE r.connector_id = @connector_id::integer AND r.status <> 'missed'
    ORDER BY r.started_at DESC LIMIT 50)
    AND (started_at >= @since::timestamptz OR trigger_requested_at >= @since::timestamptz)
ORDER BY started_at;

-- name: WaitingRuns :many
-- Those of these open runs that wait because their source has asked for it.
SELECT id, wait_message::text AS wait_message, waits_until::timestamptz AS waits_until FROM open_runs
WHERE id = ANY(@ids::uuid[]) AND waits_until > (SELECT clock_timestamp()) AND wait_message IS NOT NULL;

-- name: OpenRun :one
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id AND status = 'running';

-- name: CountByStatus :many
SELECT type, status, count(*) AS connectors FROM connectors GROUP BY type, status ORDER BY type, status;

-- name: Now :one
SELECT clock_timestamp()::timestamptz;
