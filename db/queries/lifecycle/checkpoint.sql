-- name: LockOpenRun :one
SELECT id FROM scheduler_runs WHERE id = @session AND status = 'running' FOR UPDATE;

-- name: ReachedCheckpoint :one
-- The last checkpoint that waits though everything before it is stored. What is counted from the last one on is enough:
-- before that one everything was stored. A message that was given up without anybody knowing whose document it carried
-- (first_no is -1) is never stored, so that no checkpoint passes it. A few at a time, so that a message that is late
-- does not make this longer and longer; ask again after passing one.
SELECT r.no FROM (
    SELECT p.no, bool_and(p.counted) OVER (ORDER BY p.no) AS reached
    FROM (
        SELECT k.no, k.no - k.previous = (
            SELECT count(*) FROM run_messages m
            WHERE m.session = @session AND m.no > k.previous AND m.no <= k.no AND m.first_no >= 0) AS counted
        FROM (
            SELECT c.no, lag(c.no, 1, s.checkpoint_no) OVER (ORDER BY c.no) AS previous
            FROM run_checkpoints c
            JOIN scheduler_runs s ON s.id = c.session AND s.status = 'running' AND c.no > s.checkpoint_no
            WHERE c.session = @session
            ORDER BY c.no LIMIT 16) k) p) r
WHERE r.reached ORDER BY r.no DESC LIMIT 1;

-- name: CommitCheckpoint :execrows
UPDATE connectors c SET state = k.state
FROM run_checkpoints k
WHERE c.id = @connector_id AND c.chunking_session = @session AND c.status = 'SYNCING'
    AND k.session = @session AND k.no = @no;

-- name: PassCheckpoint :exec
WITH passed AS (DELETE FROM run_checkpoints k WHERE k.session = @session AND k.no <= @no)
UPDATE scheduler_runs SET checkpoint_no = @no WHERE id = @session AND status = 'running';

-- name: CheckpointedRuns :many
-- Open runs of which a checkpoint waits: a process may have died between the last store and the checkpoint.
SELECT r.id FROM scheduler_runs r
WHERE r.status = 'running' AND EXISTS (SELECT 1 FROM run_checkpoints k WHERE k.session = r.id);
