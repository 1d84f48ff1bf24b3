-- name: UnsweptRuns :many
SELECT id, connector_id, clock_timestamp()::timestamptz AS before FROM scheduler_runs
WHERE swept_at IS NULL AND status <> 'running'
ORDER BY completed_at
LIMIT @batch::integer;

-- name: SweepMessages :exec
DELETE FROM run_messages WHERE session = @session;

-- name: SweepCheckpoints :exec
DELETE FROM run_checkpoints WHERE session = @session;

-- name: SweepSightings :exec
-- Those of sessions that are over, and that no checkpoint speaks of (see sdk/worker/listing.go).
DELETE FROM sightings s
WHERE s.connector_id = @connector_id
    AND NOT EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.id = s.session AND r.status = 'running')
    AND NOT EXISTS (
        SELECT 1 FROM connectors c
        WHERE c.id = s.connector_id AND c.state->'$kit'->'seen' ? s.session::text);

-- name: SweepTries :exec
DELETE FROM message_tries WHERE session = @session;

-- name: SweepOrphanChunks :execrows
-- Chunks of an ended run that no document names: parts of a document that never became whole, or chunks
-- that a later message of the same session replaced.
DELETE FROM chunks c
WHERE c.session = @session AND NOT EXISTS (
    SELECT 1 FROM documents d
    WHERE d.id = c.document_id AND d.session = c.session AND d.first_no = c.first_no);

-- name: SweepDocuments :execrows
-- Deleted documents, and placeholders of documents of which some part never came. A document that an open
-- run is writing is left alone: updated_at is looked at again when this statement had to wait for the row.
DELETE FROM documents d
WHERE d.connector_id = @connector_id AND d.status IN ('deleted', 'partial') AND d.updated_at < @before::timestamptz
    AND NOT EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.connector_id = d.connector_id AND r.status = 'running');

-- name: SweepOutdated :execrows
-- What an earlier configuration has left. The first run that completes under a new one began with an empty cursor and
-- listed the whole source: a document that it did not bring is not in the source as it is configured now.
WITH gone AS (
    DELETE FROM documents d USING scheduler_runs r
    WHERE r.id = @session AND r.status IN ('completed', 'skipped') AND r.listing_whole
        AND d.connector_id = r.connector_id AND d.config_version < r.config_version
    RETURNING d.id, d.session, d.first_no)
DELETE FROM chunks c USING gone g
WHERE c.session = g.session AND c.first_no = g.first_no AND c.document_id = g.id;

-- name: MarkSwept :exec
UPDATE scheduler_runs SET swept_at = clock_timestamp() WHERE id = @session;

-- name: DeletedConnectors :many
SELECT id FROM deleted_connectors ORDER BY id LIMIT 100;

-- name: SweepConnectorDocuments :one
-- A batch of them, with their chunks; 0 when none is left.
WITH gone AS (
    DELETE FROM documents
    WHERE id IN (SELECT d.id FROM documents d WHERE d.connector_id = @connector_id LIMIT @batch::integer)
    RETURNING id, session, first_no),
pieces AS (
    DELETE FROM chunks c USING gone g
    WHERE c.session = g.session AND c.first_no = g.first_no AND c.document_id = g.id)
SELECT count(*) FROM gone;

-- name: ForgetDeletedConnector :exec
DELETE FROM deleted_connectors WHERE id = @connector_id;

-- name: SweepHistory :execrows
-- The ledger keeps at least the latest runs of every connector, and everything younger than the retention.
DELETE FROM scheduler_runs r
WHERE r.id IN (
    SELECT o.id FROM scheduler_runs o
    WHERE o.status <> 'running' AND o.swept_at IS NOT NULL
        AND o.completed_at < clock_timestamp() - @retention::interval
        AND o.started_at < (
            SELECT n.started_at FROM scheduler_runs n
            WHERE n.connector_id = o.connector_id ORDER BY n.started_at DESC OFFSET 19 LIMIT 1)
    LIMIT 1000);
