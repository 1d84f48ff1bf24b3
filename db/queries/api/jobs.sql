-- name: ListScheduledJobs :many
-- A page of jobs by name. Who sees names of jobs sees every job.
SELECT * FROM api.connectors WHERE id = ANY (ARRAY(SELECT j.connector_id FROM api.scheduled_jobs j
    WHERE j.name >= @after::text AND (j.name, j.connector_id) > (@after::text, @after_id::integer) ORDER BY j.name, j.connector_id LIMIT @page::integer))
ORDER BY name, id;

-- name: JobsNamed :many
SELECT j.connector_id FROM api.scheduled_jobs j WHERE j.name = @name::text ORDER BY j.connector_id LIMIT @page::integer;

-- name: JobStatistics :one
-- What became of its slots and runs. No row: the viewer does not see it.
SELECT s.completed::bigint AS completed, s.skipped::bigint AS skipped, s.failed::bigint AS failed, s.superseded::bigint AS superseded, s.missed::bigint AS missed,
    s.conditions_met, s.conditions_unmet, s.as_far_as
FROM api.job_statistics(@id::integer, @since::timestamptz, @most::integer) s WHERE s.completed IS NOT NULL;
