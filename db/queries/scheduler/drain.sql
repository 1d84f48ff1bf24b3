-- name: DrainingRuns :many
-- Read before the stream is asked: what drains later may be newer than the stream's answer.
SELECT r.id
FROM connectors c
JOIN scheduler_runs r ON r.id = c.chunking_session
WHERE c.chunking_session IS NOT NULL AND c.status = 'SYNCING' AND c.lease_expires_at IS NULL
    AND r.drain_seq IS NOT NULL AND r.stored IS DISTINCT FROM r.total;

-- name: FailLostInTransit :many
-- The runs among them whose messages the document stream no longer holds. A message is acknowledged only
-- after its store is committed, so a run that is still short of its total after the stream was asked has
-- lost some.
UPDATE connectors c
SET status = 'ERROR', due_reason = 'lost', status_message = 'documents were lost in transit; syncing again',
    chunking_session = NULL
FROM scheduler_runs r
WHERE r.id = c.chunking_session AND c.chunking_session = ANY(@sessions::uuid[]) AND c.status = 'SYNCING'
    AND c.lease_expires_at IS NULL AND r.status = 'running' AND r.stored IS DISTINCT FROM r.total
    AND (r.drain_seq < @first_seq::bigint OR r.drain_seq > @last_seq::bigint)
RETURNING c.id, c.type, r.id AS session;
