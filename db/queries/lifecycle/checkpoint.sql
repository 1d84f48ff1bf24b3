-- name: Advance :one
SELECT a.passed::boolean AS passed, a.more::boolean AS more FROM moves.advance(@run_id::uuid) a;

-- name: CheckpointedRuns :many
-- A page of the open runs of which a checkpoint waits: a process may have died between the last store and the checkpoint.
SELECT DISTINCT ON (k.try_id) k.try_id, k.run_id FROM run_checkpoints k
WHERE k.try_id > @after::uuid AND EXISTS (SELECT FROM open_runs r WHERE r.id = k.run_id AND r.try_id = k.try_id)
ORDER BY k.try_id LIMIT @page::integer;
