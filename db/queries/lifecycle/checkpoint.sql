-- name: Advance :one
SELECT a.passed::boolean AS passed, a.more::boolean AS more FROM moves.advance(@run_id::uuid) a;

-- name: CheckpointedRuns :many
-- A page of the tries that have a checkpoint waiting, one step of the index for each, whatever number of checkpoints it has; is_open:
-- its run is. Of those a process may have died between the last store and the checkpoint; what the others have left is swept.
WITH RECURSIVE waiting AS (
    (SELECT k.try_id, k.run_id, 1 AS n FROM run_checkpoints k WHERE k.try_id > @after::uuid ORDER BY k.try_id LIMIT 1)
    UNION ALL
    SELECT l.try_id, l.run_id, w.n + 1 FROM waiting w CROSS JOIN LATERAL (
        SELECT k.try_id, k.run_id FROM run_checkpoints k WHERE k.try_id > w.try_id ORDER BY k.try_id LIMIT 1) l
    WHERE w.n < @page::integer)
SELECT w.try_id, w.run_id, EXISTS (SELECT FROM open_runs r WHERE r.id = w.run_id AND r.try_id = w.try_id)::boolean AS is_open
FROM waiting w ORDER BY w.n;
