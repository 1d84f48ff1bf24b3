-- name: Beats :many
-- A page of the worker processes: how often each has beaten, and whether its lease has run out while it holds runs. Only those
-- are worth a rescue; looked up by worker, so that it costs nothing for those that live.
SELECT w.id, w.beats, coalesce(CASE WHEN w.expires_at < (SELECT clock_timestamp()) THEN
    (SELECT true FROM open_runs r WHERE r.worker_id = w.id AND NOT r.whole LIMIT 1) END, false)::boolean AS expired
FROM workers w
WHERE w.id > @after::uuid
ORDER BY w.id
LIMIT @page::integer;
