-- name: TakeTurnAtChains :exec
-- Who locks a connector first, and then takes this turn, would wait in a circle with who adds a row that names the connector.
SELECT pg_advisory_xact_lock(hashtext('echomind.run_after')) FROM (SELECT set_config('lock_timeout', @patience::text, true) OFFSET 0) s;

-- name: WaitForRows :exec
-- How long the transaction waits for each row from now on.
SELECT set_config('lock_timeout', @patience::text, true);

-- name: SeenOf :many
-- Those of some connectors that the viewer sees.
SELECT u.id::integer AS id FROM unnest(@ids::integer[]) u(id) WHERE api.sees_connector(u.id);

-- name: RemoveUpstreams :execrows
-- All but some, of those that the viewer sees.
DELETE FROM api.chained WHERE connector_id = @connector_id AND upstream_id <> ALL (@keep::integer[]);

-- name: ChangeUpstreams :execrows
-- upstreams: [{connector_id, accepts, max_age_minutes, timeout_minutes}].
UPDATE api.chained a SET accepts = u.accepts, max_age_minutes = u.max_age_minutes, timeout_minutes = u.timeout_minutes
FROM jsonb_to_recordset(@upstreams::jsonb) u(connector_id integer, accepts text, max_age_minutes integer, timeout_minutes integer)
WHERE a.connector_id = @connector_id AND a.upstream_id = u.connector_id
    AND (a.accepts, a.max_age_minutes, a.timeout_minutes) IS DISTINCT FROM (u.accepts, u.max_age_minutes, u.timeout_minutes);

-- name: AddUpstreams :execrows
INSERT INTO api.chained (connector_id, upstream_id, accepts, max_age_minutes, timeout_minutes)
SELECT @connector_id::integer, u.connector_id, u.accepts, u.max_age_minutes, u.timeout_minutes
FROM jsonb_to_recordset(@upstreams::jsonb) u(connector_id integer, accepts text, max_age_minutes integer, timeout_minutes integer)
ON CONFLICT (connector_id, upstream_id) DO NOTHING;

-- name: RunAfter :many
-- Whom a connector runs after, as far as the viewer sees them.
SELECT upstream_id, accepts, max_age_minutes, timeout_minutes FROM api.run_after WHERE connector_id = @id ORDER BY upstream_id;
