-- name: ReplacedSecret :one
-- What stands in place of a secret of the connector's configuration.
SELECT envelope FROM connector_secrets WHERE connector_id = @connector_id AND name = @name;

-- name: ReplaceSecret :execrows
-- Guarded by the session. The row of the connector is locked, so that nobody ends the session, or deletes the
-- connector, between the look at it and the commit.
INSERT INTO connector_secrets (connector_id, name, envelope)
SELECT c.id, @name, @envelope FROM connectors c
WHERE c.id = @connector_id AND c.chunking_session = @session AND c.status = 'SYNCING'
FOR SHARE OF c
ON CONFLICT (connector_id, name) DO UPDATE SET envelope = EXCLUDED.envelope, updated_at = clock_timestamp();

-- name: ForgetSecret :exec
-- Removes what stands in place of a secret that the user has replaced. Another value than the one that was read stays.
DELETE FROM connector_secrets WHERE connector_id = @connector_id AND name = @name AND envelope = @envelope;
