-- name: RunsOf :many
-- A page of a connector's runs of a time, which RunsBackOf bounds, the latest begun first.
SELECT * FROM api.runs
WHERE connector_id = @connector_id
    AND started_at >= (SELECT api.runs_reach(@connector_id, @since::timestamptz, @before::timestamptz, @before_id::uuid, sqlc.narg('status')::text,
        sqlc.narg('ended_since')::timestamptz, sqlc.narg('ended_before')::timestamptz, @page::integer))
    AND started_at <= @before::timestamptz AND (started_at, id) < (@before::timestamptz, @before_id::uuid)
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
    AND (completed_at IS NULL OR sqlc.narg('ended_since')::timestamptz IS NULL OR completed_at >= sqlc.narg('ended_since'))
    AND (sqlc.narg('ended_before')::timestamptz IS NULL OR completed_at < sqlc.narg('ended_before'))
ORDER BY started_at DESC, id DESC
LIMIT @page::integer;

-- name: LatestRuns :many
-- The latest runs of each of some connectors, without what others say in them. Null may be what is null in runs: a function's columns do not say so.
SELECT l.connector_id, l.id, l.trigger, l.status, l.reason, l.slot, l.slot_last, l.missed_count, l.due_at, l.started_at, l.completed_at
FROM api.latest_runs(@ids::integer[], @most::integer) l;

-- name: OpenRunsThrough :one
-- The open run that is so many behind another; no row where there are not so many.
SELECT t.id::uuid AS id FROM (SELECT api.open_runs_through(@after::uuid, @look::integer) AS id) t WHERE t.id IS NOT NULL;

-- name: OpenRuns :many
-- A page of what is in flight, by number, up to one that OpenRunsThrough says.
SELECT * FROM api.runs
WHERE status = 'running' AND id > @after::uuid AND id <= @through::uuid AND (sqlc.narg('type')::text IS NULL OR type = sqlc.narg('type'))
    AND (NOT @jobs::boolean OR type = ANY ((SELECT api.job_types())::text[]))
    AND (sqlc.narg('owner')::integer IS NULL OR api.is_of(connector_id, sqlc.narg('owner')))
ORDER BY id
LIMIT @page::integer;

-- name: EndedRuns :many
-- A page of what has ended in a time, which RunsBack bounds, the latest first.
SELECT * FROM api.runs
WHERE status <> 'running' AND completed_at >= @since::timestamptz
    AND completed_at <= @before::timestamptz AND (completed_at, id) < (@before::timestamptz, @before_id::uuid)
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
    AND (sqlc.narg('type')::text IS NULL OR type = sqlc.narg('type'))
    AND (NOT @jobs::boolean OR type = ANY ((SELECT api.job_types())::text[]))
    AND (sqlc.narg('owner')::integer IS NULL OR api.is_of(connector_id, sqlc.narg('owner')))
ORDER BY completed_at DESC, id DESC
LIMIT @page::integer;

-- name: RunsBack :one
-- When the run ended that is so many before a moment; no row where there are not so many.
SELECT b.ended_at::timestamptz AS ended_at FROM (SELECT api.runs_back(@before::timestamptz, @back::integer) AS ended_at) b WHERE b.ended_at IS NOT NULL;

-- name: RunsBackOf :one
-- When the run of a connector began that is so many before a moment; no row where there are not so many.
SELECT b.started_at::timestamptz AS started_at
FROM (SELECT api.runs_back_of(@connector_id::integer, @before::timestamptz, @back::integer) AS started_at) b WHERE b.started_at IS NOT NULL;

-- name: GetOpenRun :one
-- Of the ledger it reads nothing.
SELECT * FROM api.runs WHERE id = @id AND status = 'running';

-- name: GetRun :one
-- One that has ended is looked for in each week of the ledger.
SELECT * FROM api.runs WHERE id = @id;

-- name: Cancel :one
SELECT moves.cancel(@id::uuid, @message::text)::boolean;
