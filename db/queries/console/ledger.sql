-- name: ListRuns :many
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id
ORDER BY started_at DESC, id
LIMIT @page::integer;

-- name: RunsSince :many
-- Runs claimed at or after a moment, oldest first.
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id AND started_at >= @since
ORDER BY started_at
LIMIT 100;

-- name: OpenRun :one
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id AND status = 'running';

-- name: CountByStatus :many
SELECT type, status, count(*) AS connectors FROM connectors GROUP BY type, status ORDER BY type, status;

-- name: DueAhead :one
-- How many connectors of the type are due before this one, and how many are in flight.
SELECT
    (SELECT count(*) FROM connectors a WHERE a.type = @type AND a.next_sync_at < @next_sync_at::timestamptz) AS ahead,
    (SELECT count(*) FROM connectors a WHERE a.type = @type AND a.chunking_session IS NOT NULL) AS in_flight;

-- name: Now :one
SELECT clock_timestamp()::timestamptz;
