-- name: LockConnector :one
-- First in the lock order: connectors, then scheduler_runs.
SELECT id, type FROM connectors WHERE chunking_session = @session AND status = 'SYNCING' FOR UPDATE;

-- name: LockStoredRun :one
-- unnamed: a message was given up of which nobody can tell whose document it carried (first_no is -1).
SELECT new_state, documents_processed + documents_failed + documents_unchanged AS analyzed,
    total - notes AS documents,
    (documents_failed > 0 AND EXISTS (
        SELECT 1 FROM run_messages m WHERE m.session = @session AND m.first_no < 0))::boolean AS unnamed
FROM scheduler_runs
WHERE id = @session AND status = 'running' AND stored = total
FOR UPDATE;

-- name: EndRun :exec
UPDATE scheduler_runs
SET status = @verdict, completed_at = clock_timestamp(), new_state = NULL
WHERE id = @session AND status = 'running';

-- name: Activate :exec
-- The database's trigger plans the next due time.
UPDATE connectors
SET status = 'ACTIVE', last_sync_at = clock_timestamp(), state = coalesce(@new_state, state),
    docs_analyzed = @analyzed, chunking_session = NULL, lease_owner = NULL, lease_expires_at = NULL
WHERE id = @connector_id AND chunking_session = @session AND status = 'SYNCING';

-- name: StoredRuns :many
-- Open runs whose documents are all stored: a process died between the last store and the completion.
SELECT id FROM scheduler_runs WHERE status = 'running' AND stored = total LIMIT 1000;
