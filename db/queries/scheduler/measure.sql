-- name: PendingSyncs :one
SELECT count(*) FROM connectors WHERE chunking_session IS NOT NULL AND status = 'PENDING';

-- name: Verdicts :many
-- Runs that ended since the last look, for the metrics; a page of them.
SELECT r.id, r.job_name, r.status, r.due_at, r.completed_at
FROM scheduler_runs r
WHERE r.status <> 'running' AND r.completed_at > @since::timestamptz AND r.completed_at <= @until::timestamptz
ORDER BY r.completed_at
LIMIT @page::integer;
