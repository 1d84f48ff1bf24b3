-- name: RunAfterOf :many
-- Whom connectors run after.
SELECT a.connector_id, a.upstream_id, a.accepts, a.max_age_minutes, a.timeout_minutes FROM run_after a
WHERE a.connector_id = ANY (@ids::integer[]) ORDER BY a.connector_id, a.upstream_id;

-- name: TakeTurnAtChains :exec
-- Who locks a connector first, and then takes this turn, would wait in a circle with who adds a row that names the connector.
SELECT pg_advisory_xact_lock(hashtext('echomind.run_after'));

-- name: RemoveUpstreams :exec
DELETE FROM run_after WHERE connector_id = @connector_id AND upstream_id <> ALL (@upstreams::integer[]);

-- name: AddUpstreams :exec
INSERT INTO run_after (connector_id, upstream_id) SELECT @connector_id::integer, u.id FROM unnest(@upstreams::integer[]) u(id)
ON CONFLICT (connector_id, upstream_id) DO NOTHING;

-- name: ChangeUpstreams :execrows
-- What is given of all that a connector runs after.
UPDATE run_after SET accepts = coalesce(sqlc.narg('accepts'), accepts),
    max_age_minutes = CASE WHEN @set_max_age::boolean THEN sqlc.narg('max_age')::integer ELSE max_age_minutes END,
    timeout_minutes = CASE WHEN @set_timeout::boolean THEN sqlc.narg('timeout')::integer ELSE timeout_minutes END
WHERE connector_id = @connector_id;
