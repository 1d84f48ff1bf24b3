-- name: SealedConfigs :many
-- Connectors whose configuration holds envelopes, or what may be one.
SELECT id, config FROM connectors
WHERE id > @after AND config::text LIKE '%"enc:v1:%'
ORDER BY id LIMIT @page::integer;

-- name: Resealing :exec
-- Of this transaction: the same configuration under another key is no change of it. See connector_resealed.
SELECT set_config('echomind.resealing', 'on', true);

-- name: ResealConfig :execrows
UPDATE connectors SET config = @resealed WHERE id = @id AND config = @sealed;

-- name: SealedSecrets :many
SELECT connector_id, name, envelope FROM connector_secrets
WHERE (connector_id, name) > (@after_id::integer, @after_name::text)
ORDER BY connector_id, name LIMIT @page::integer;

-- name: ResealSecret :execrows
UPDATE connector_secrets SET envelope = @resealed
WHERE connector_id = @connector_id AND name = @name AND envelope = @sealed;

-- name: ReserveConnectorID :one
-- Secrets are sealed for the one connector that they are of, before it is added.
SELECT nextval('connectors_id_seq')::integer;
