-- name: PickUp :execrows
-- PENDING -> SYNCING under a fresh lease. It also succeeds where this try's own lease already stands: the
-- commit whose answer was lost.
UPDATE connectors
SET status = 'SYNCING',
    lease_owner = @lease_owner,
    lease_expires_at = clock_timestamp() + @lease::interval
WHERE id = @connector_id AND chunking_session = @session
    AND (status = 'PENDING' OR (status = 'SYNCING' AND lease_owner = @lease_owner));

-- name: Renew :execrows
-- It may revive a lease that has run out and that nobody claimed; never one that was given up by draining.
UPDATE connectors
SET lease_expires_at = clock_timestamp() + @lease::interval
WHERE chunking_session = @session AND status = 'SYNCING'
    AND lease_expires_at IS NOT NULL AND lease_owner = @lease_owner;

-- name: DropLease :execrows
UPDATE connectors
SET lease_owner = NULL, lease_expires_at = NULL
WHERE chunking_session = @session AND status = 'SYNCING' AND lease_owner = @lease_owner;

-- name: MarkDraining :exec
UPDATE scheduler_runs
SET drain_seq = @drain_seq::bigint, fetched_at = clock_timestamp()
WHERE id = @session AND status = 'running';

-- name: Release :execrows
-- The database's trigger makes it due now and ends the run as superseded.
UPDATE connectors
SET status = 'ACTIVE', chunking_session = NULL, lease_owner = NULL, lease_expires_at = NULL
WHERE chunking_session = @session AND status IN ('PENDING', 'SYNCING');

-- name: Fail :execrows
-- The database's trigger applies the failure policy and ends the run as failed; kind is retry, permanent,
-- rescue or lost.
UPDATE connectors
SET status = 'ERROR', status_message = @message, due_reason = @kind,
    chunking_session = NULL, lease_owner = NULL, lease_expires_at = NULL
WHERE chunking_session = @session AND status = 'SYNCING';

-- name: Disable :execrows
UPDATE connectors SET status = 'DISABLED' WHERE id = @connector_id AND status <> 'DISABLED';

-- name: Enable :execrows
UPDATE connectors SET status = 'ACTIVE' WHERE id = @connector_id AND status = 'DISABLED';
