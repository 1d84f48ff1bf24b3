-- name: JobNames :many
-- A page of jobs by name: which they are.
SELECT name, connector_id FROM api.scheduled_jobs
WHERE name >= @after::text AND (name, connector_id) > (@after::text, @after_id::integer) ORDER BY name, connector_id LIMIT @page::integer;

-- name: JobsNamed :many
SELECT j.connector_id FROM api.scheduled_jobs j WHERE j.name = @name::text ORDER BY j.connector_id LIMIT @page::integer;

-- name: ConnectorsOf :many
SELECT * FROM api.connectors WHERE id = ANY (@ids::integer[]);

-- name: JobStatistics :one
-- What became of its slots and runs. No row: the viewer does not see it.
SELECT s.completed::bigint AS completed, s.skipped::bigint AS skipped, s.failed::bigint AS failed, s.superseded::bigint AS superseded, s.missed::bigint AS missed,
    s.conditions_met, s.conditions_unmet, s.as_far_as
FROM api.job_statistics(@id::integer, @since::timestamptz, @most::integer) s WHERE s.completed IS NOT NULL;
