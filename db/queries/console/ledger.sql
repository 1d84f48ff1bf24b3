-- name: ListRuns :many
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id
ORDER BY started_at DESC, id
LIMIT @page::integer;

-- name: RunsOf :many
-- The runs of a connector, the latest first. Ended ones by when they ended; open ones where they are asked for.
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id
    AND ((completed_at IS NULL AND @open::boolean) OR (completed_at >= @since::timestamptz AND completed_at < @until::timestamptz))
    AND (@verdicts::text[] = '{}' OR status = ANY(@verdicts::text[]))
ORDER BY started_at DESC, id
LIMIT @page::integer;

-- name: OpenRuns :many
-- A page of all that is in flight, the latest claimed first.
SELECT * FROM scheduler_runs WHERE status = 'running'
    AND started_at <= @before::timestamptz AND (started_at, id) < (@before::timestamptz, @before_id::uuid)
    AND (@types::text[] = '{}' OR type = ANY(@types::text[]))
    AND (sqlc.narg('owner')::integer IS NULL OR connector_id IN (SELECT c.id FROM connectors c
        WHERE c.scope IN ('user', 'group', 'org') AND c.user_id = sqlc.narg('owner')::integer))
ORDER BY started_at DESC, id DESC
LIMIT @page::integer;

-- name: EndedRuns :many
-- A page of what has ended in a time, the latest first. Where it is filtered the time is to be bounded by RunsBack.
SELECT * FROM scheduler_runs WHERE status <> 'running'
    AND completed_at >= @since::timestamptz AND completed_at < @until::timestamptz
    AND completed_at <= @before::timestamptz AND (completed_at, id) < (@before::timestamptz, @before_id::uuid)
    AND (@verdicts::text[] = '{}' OR status = ANY(@verdicts::text[]))
    AND (@types::text[] = '{}' OR type = ANY(@types::text[]))
    -- By connectors_reader.
    AND (sqlc.narg('owner')::integer IS NULL OR connector_id IN (SELECT c.id FROM connectors c
        WHERE c.scope IN ('user', 'group', 'org') AND c.user_id = sqlc.narg('owner')::integer))
ORDER BY completed_at DESC, id DESC
LIMIT @page::integer;

-- name: RunsBack :one
-- When the run ended that is so many before a moment; no row where there are not so many. It reads the index alone.
SELECT completed_at FROM runs
WHERE completed_at >= @since::timestamptz AND completed_at < @until::timestamptz
ORDER BY completed_at DESC
OFFSET @back::bigint LIMIT 1;

-- name: StatRuns :many
-- What came of the runs of each connector that ended in a time; first, with id 0, of all of them. The time is to be bounded by RunsBack.
SELECT coalesce(r.connector_id, 0)::integer AS connector_id,
    count(*) FILTER (WHERE r.missed_count IS NULL) AS runs,
    count(*) FILTER (WHERE r.status = 'completed') AS completed,
    count(*) FILTER (WHERE r.status = 'skipped' AND r.missed_count IS NULL) AS skipped,
    count(*) FILTER (WHERE r.status = 'failed') AS failed,
    count(*) FILTER (WHERE r.status = 'superseded') AS superseded,
    coalesce(sum(r.missed_count) FILTER (WHERE r.status = 'missed'), 0)::bigint AS missed,
    coalesce(percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY extract(epoch FROM r.completed_at - r.picked_up_at)::float8)
        FILTER (WHERE r.picked_up_at IS NOT NULL AND r.status IN ('completed', 'skipped', 'failed')), '{}')::float8[] AS took,
    coalesce(percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY extract(epoch FROM r.picked_up_at - r.due_at)::float8)
        FILTER (WHERE r.picked_up_at IS NOT NULL), '{}')::float8[] AS queued
FROM runs r
WHERE r.completed_at >= @since::timestamptz AND r.completed_at < @until::timestamptz
    AND (@types::text[] = '{}' OR r.type = ANY(@types::text[]))
    AND (sqlc.narg('owner')::integer IS NULL OR r.connector_id IN (SELECT c.id FROM connectors c
        WHERE c.scope IN ('user', 'group', 'org') AND c.user_id = sqlc.narg('owner')::integer))
GROUP BY ROLLUP (r.connector_id)
ORDER BY grouping(r.connector_id) DESC, failed DESC, runs DESC, connector_id
LIMIT @page::integer;

-- name: StatRunsOf :many
-- The same of some connectors, of so many of the latest runs of each.
SELECT coalesce(r.connector_id, 0)::integer AS connector_id,
    count(*) FILTER (WHERE r.missed_count IS NULL) AS runs,
    count(*) FILTER (WHERE r.status = 'completed') AS completed,
    count(*) FILTER (WHERE r.status = 'skipped' AND r.missed_count IS NULL) AS skipped,
    count(*) FILTER (WHERE r.status = 'failed') AS failed,
    count(*) FILTER (WHERE r.status = 'superseded') AS superseded,
    coalesce(sum(r.missed_count) FILTER (WHERE r.status = 'missed'), 0)::bigint AS missed,
    coalesce(percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY extract(epoch FROM r.completed_at - r.picked_up_at)::float8)
        FILTER (WHERE r.picked_up_at IS NOT NULL AND r.status IN ('completed', 'skipped', 'failed')), '{}')::float8[] AS took,
    coalesce(percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY extract(epoch FROM r.picked_up_at - r.due_at)::float8)
        FILTER (WHERE r.picked_up_at IS NOT NULL), '{}')::float8[] AS queued
FROM unnest(@connector_ids::integer[]) AS named(id)
CROSS JOIN LATERAL (
    SELECT l.* FROM runs l WHERE l.connector_id = named.id
        AND l.completed_at >= @since::timestamptz AND l.completed_at < @until::timestamptz
    ORDER BY l.started_at DESC LIMIT @most::integer) r
GROUP BY ROLLUP (r.connector_id)
ORDER BY grouping(r.connector_id) DESC, failed DESC, runs DESC, connector_id
LIMIT @page::integer;

-- name: RunsBetween :many
-- The runs whose ids begin as somebody has typed, by the keys of each week.
SELECT * FROM scheduler_runs WHERE id BETWEEN @least::uuid AND @greatest::uuid ORDER BY id LIMIT @page::integer;

-- name: RunInFlight :one
-- What is known of an open run alone.
SELECT r.config_version, r.acknowledged, r.publish_error, r.not_taken, r.cut, r.checkpoint_no, w.expires_at AS lease_expires_at
FROM open_runs r LEFT JOIN workers w ON w.id = r.worker_id WHERE r.id = @id;

-- name: FailedInTry :many
-- Documents that a try has left as failed, and no later run has touched. Reads the documents of the connector.
SELECT source_id, error::text AS error FROM documents
WHERE connector_id = @connector_id AND status = 'failed' AND written_by = @try_id::uuid
ORDER BY source_id LIMIT @page::integer;

-- name: ConnectorNames :many
SELECT id, name, type, user_id FROM connectors WHERE id = ANY(@ids::integer[]);

-- name: RunsAnswering :many
-- Of the latest runs of a connector those that read the source at or after a moment, or were asked to: claimed
-- since then, or picked up with a trigger that was asked for since then; of those with parameters those that were asked for since then. Oldest first.
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id::integer AND id IN (
    SELECT r.id FROM scheduler_runs r WHERE r.connector_id = @connector_id::integer AND r.missed_count IS NULL
    ORDER BY r.started_at DESC LIMIT 50)
    AND CASE WHEN @asked::boolean THEN parameters IS NOT NULL AND due_at >= @since::timestamptz
        ELSE parameters IS NULL AND (started_at >= @since::timestamptz OR trigger_requested_at >= @since::timestamptz) END
ORDER BY started_at;

-- name: WaitingRuns :many
-- Those of these open runs that wait because their source has asked for it, and jobs that say how far they have come.
SELECT id, wait_message, waits_until, progress_done, progress_total, progress_text FROM open_runs
WHERE id = ANY(@ids::uuid[]) AND (waits_until > (SELECT clock_timestamp()) AND wait_message IS NOT NULL
    OR progress_done IS NOT NULL OR progress_text IS NOT NULL);

-- name: OpenRun :one
SELECT * FROM scheduler_runs WHERE connector_id = @connector_id AND status = 'running';

-- name: CountByStatus :many
SELECT type, status, count(*) AS connectors FROM connectors GROUP BY type, status ORDER BY type, status;

-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: SystemJobs :many
-- Each with its last verdict; there is one of a type.
SELECT c.id, c.type, c.status, c.next_sync_at, coalesce(r.completed_at, 'epoch')::timestamptz AS completed_at, coalesce(r.status, '')::text AS verdict,
    coalesce(r.error_message, r.reason, '')::text AS reason, coalesce(r.result, 'null')::jsonb AS result
FROM system_jobs s JOIN connectors c ON c.id = s.connector_id LEFT JOIN LATERAL (
    SELECT l.completed_at, l.status, l.reason, l.error_message, l.result FROM runs l WHERE l.connector_id = c.id ORDER BY l.started_at DESC LIMIT 1) r ON true
ORDER BY s.type LIMIT 100;
