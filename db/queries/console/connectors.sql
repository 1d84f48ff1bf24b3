-- name: AddConnector :one
INSERT INTO connectors (id, name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone,
    dst_gap, dst_overlap, spread_percent, deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries,
    deletion_guard, created_by, updated_by)
VALUES (coalesce(sqlc.narg('id')::integer, nextval('connectors_id_seq'))::integer, @name, @type, @user_id, @scope,
    @scope_id, @config, @refresh_freq_minutes, @schedule_cron, @run_at_once, @time_zone, @dst_gap, @dst_overlap, @spread_percent,
    @deadline_minutes, @overlap, @once_per, @catch_up, @catch_up_most, @catch_up_minutes, @fresh_within_minutes, @calendar, @calendar_use, @condition, @concurrency_keys, @max_retries,
    coalesce(sqlc.narg('deletion_guard')::boolean, true), @by, @by)
RETURNING *;

-- name: GetConnector :one
SELECT * FROM connectors WHERE id = @id;

-- name: ListConnectors :many
SELECT * FROM connectors
WHERE id > @after
    AND (sqlc.narg('type')::text IS NULL OR type = sqlc.narg('type'))
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
    AND (sqlc.narg('user_id')::integer IS NULL OR user_id = sqlc.narg('user_id'))
ORDER BY id
LIMIT @page::integer;

-- name: UpdateConnector :one
UPDATE connectors
SET name = @name, type = @type, config = @config, scope = @scope, scope_id = @scope_id, user_id = @user_id,
    refresh_freq_minutes = @refresh_freq_minutes, schedule_cron = @schedule_cron, run_at_once = @run_at_once, time_zone = @time_zone,
    dst_gap = @dst_gap, dst_overlap = @dst_overlap, spread_percent = @spread_percent, deadline_minutes = @deadline_minutes,
    overlap = @overlap, once_per = @once_per, catch_up = @catch_up, catch_up_most = @catch_up_most, catch_up_minutes = @catch_up_minutes,
    fresh_within_minutes = @fresh_within_minutes, calendar = @calendar, calendar_use = @calendar_use, condition = @condition, concurrency_keys = @concurrency_keys, max_retries = @max_retries, deletion_guard = coalesce(sqlc.narg('deletion_guard')::boolean, deletion_guard), updated_by = @by, updated_at = clock_timestamp()
WHERE id = @id
RETURNING *;

-- name: LockConnector :one
SELECT * FROM connectors WHERE id = @id FOR UPDATE;

-- name: DeleteConnector :execrows
DELETE FROM connectors WHERE id = @id;

-- name: TriggerConnector :one
-- No row where there is no such connector.
SELECT t.at::timestamptz AS at FROM moves.trigger_sync(@id::integer, @allow_deletions::boolean, sqlc.narg('parameters')::jsonb) t(at) WHERE t.at IS NOT NULL;

-- name: KindOf :one
-- What a connector is: a source, or a job.
SELECT t.name, t.kind FROM connectors c JOIN connector_types t ON t.name = c.type WHERE c.id = @id;

-- name: ConnectorType :one
SELECT * FROM connector_types WHERE name = @name;

-- name: DefaultRefresh :one
SELECT default_refresh(@type::text)::integer;

-- name: SetConnectorType :one
-- Adds a type, or changes what is given of one that exists; its kind stays.
INSERT INTO connector_types AS t (name, kind, default_refresh_minutes, max_concurrent_syncs, concurrency_keys)
VALUES (@name, @kind, sqlc.narg('default_refresh_minutes'), sqlc.narg('max_concurrent_syncs'), sqlc.narg('concurrency_keys')::text[])
ON CONFLICT (name) DO UPDATE SET
    default_refresh_minutes = coalesce(EXCLUDED.default_refresh_minutes, t.default_refresh_minutes),
    max_concurrent_syncs = coalesce(EXCLUDED.max_concurrent_syncs, t.max_concurrent_syncs),
    concurrency_keys = CASE WHEN @sets_keys::boolean THEN EXCLUDED.concurrency_keys ELSE t.concurrency_keys END
RETURNING *;

-- name: SetTypeProvider :one
-- A statement of its own: administrators alone may.
UPDATE connector_types SET provider = sqlc.narg('provider') WHERE name = @name RETURNING *;

-- name: AddSystemType :one
-- Adds a type of the system, or changes how often its new job runs; no row where the type is there and is not the system's.
INSERT INTO connector_types AS t (name, kind, system, default_refresh_minutes, max_concurrent_syncs)
VALUES (@name, 'job', true, sqlc.narg('default_refresh_minutes'), 0)
ON CONFLICT (name) DO UPDATE SET default_refresh_minutes = coalesce(EXCLUDED.default_refresh_minutes, t.default_refresh_minutes) WHERE t.system
RETURNING *;

-- name: SystemJobOf :one
SELECT connector_id FROM system_jobs WHERE type = @type;

-- name: ListConnectorTypes :many
SELECT * FROM connector_types ORDER BY name;

-- name: ConnectorsNamed :many
SELECT id, type, user_id FROM connectors WHERE name = @name ORDER BY id LIMIT @page::integer;

-- name: IntervalSlot :one
-- The next slot of an interval that counts from a moment.
SELECT moves.interval_slot(@id::integer, @base::timestamptz, @minutes::integer, @spread::integer)::timestamptz;
