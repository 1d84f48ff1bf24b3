-- name: ReplacedSecret :one
-- What stands in place of a secret of the connector's configuration.
SELECT envelope FROM connector_secrets WHERE connector_id = @connector_id AND name = @name;

-- name: ReplaceSecret :one
SELECT moves.replace_secret(@run_id::uuid, @try_id::uuid, @name::text, @envelope::text)::boolean;

-- name: ForgetSecret :exec
-- Removes what stands in place of a secret that the user has replaced. Another value than the one that was read stays.
DELETE FROM connector_secrets WHERE connector_id = @connector_id AND name = @name AND envelope = @envelope;
