-- name: ListLocks :many
SELECT * FROM api.locks WHERE key = ANY (@keys::text[]) ORDER BY key;

-- name: LockKeys :one
SELECT coalesce(api.lock_keys(@after::text, @page::integer), '{}')::text[] AS keys;

-- name: ReleaseLock :many
SELECT r.epoch::bigint AS epoch, r.expires_at::timestamptz AS expires_at FROM moves.release_lock(@lock_key::text, sqlc.narg('lock_epoch')::bigint, @who::text) r;

-- name: ListLimits :many
-- users: only these; null: everybody.
SELECT * FROM api.limits WHERE user_id > @after::integer AND (sqlc.narg('users')::integer[] IS NULL OR user_id = ANY (sqlc.narg('users')::integer[])) ORDER BY user_id LIMIT @page::integer;

-- name: GetLimit :one
SELECT * FROM api.limits WHERE user_id = @user_id::integer;

-- name: LockLimit :one
-- For a change. None of whom the viewer may not change.
SELECT * FROM api.changeable_limits WHERE user_id = @user_id::integer FOR UPDATE;

-- name: AddLimit :execrows
-- None where there is one of the user.
INSERT INTO api.changeable_limits (user_id, max_connectors, max_concurrent_syncs, max_documents, max_bytes)
VALUES (@user_id::integer, sqlc.narg('max_connectors')::integer, sqlc.narg('max_concurrent_syncs')::integer, sqlc.narg('max_documents')::bigint, sqlc.narg('max_bytes')::bigint)
ON CONFLICT (user_id) DO NOTHING;

-- name: ChangeLimit :execrows
-- None where that changes nothing.
UPDATE api.changeable_limits SET max_connectors = sqlc.narg('max_connectors')::integer, max_concurrent_syncs = sqlc.narg('max_concurrent_syncs')::integer,
    max_documents = sqlc.narg('max_documents')::bigint, max_bytes = sqlc.narg('max_bytes')::bigint
WHERE user_id = @user_id::integer AND (max_connectors, max_concurrent_syncs, max_documents, max_bytes) IS DISTINCT FROM
    (sqlc.narg('max_connectors')::integer, sqlc.narg('max_concurrent_syncs')::integer, sqlc.narg('max_documents')::bigint, sqlc.narg('max_bytes')::bigint);

-- name: DeleteLimit :execrows
DELETE FROM api.changeable_limits WHERE user_id = @user_id::integer;

-- name: ListKeyLimits :many
SELECT * FROM api.key_limits WHERE key > @after::text ORDER BY key LIMIT @page::integer;

-- name: GetKeyLimit :one
SELECT * FROM api.key_limits WHERE key = @key::text;

-- name: LockKeyLimit :one
-- For a change. None of whom the viewer may not change.
SELECT * FROM api.changeable_key_limits WHERE key = @key::text FOR UPDATE;

-- name: AddKeyLimit :execrows
-- None where the key has one.
INSERT INTO api.changeable_key_limits (key, most) VALUES (@key::text, @most::integer) ON CONFLICT (key) DO NOTHING;

-- name: ChangeKeyLimit :execrows
-- None where that changes nothing.
UPDATE api.changeable_key_limits SET most = @most::integer WHERE key = @key::text AND most <> @most::integer;

-- name: DeleteKeyLimit :execrows
DELETE FROM api.changeable_key_limits WHERE key = @key::text;

-- name: ListCalendars :many
-- connectors is null for who may not see how many name it, and so is who wrote it.
SELECT * FROM api.calendars WHERE name > @after::text ORDER BY name LIMIT @page::integer;

-- name: GetCalendar :one
SELECT * FROM api.calendars WHERE name = @name::text;

-- name: LockCalendar :one
-- For a change. None of whom the viewer may not change.
SELECT version::bigint AS version FROM api.changeable_calendars WHERE name = @name::text FOR UPDATE;

-- name: AddCalendar :execrows
-- None where there is one of its name.
INSERT INTO api.changeable_calendars (name, time_zone, entries) VALUES (@name::text, @time_zone::text, @entries::jsonb) ON CONFLICT (name) DO NOTHING;

-- name: ChangeCalendar :execrows
-- None where that changes nothing.
UPDATE api.changeable_calendars SET time_zone = @time_zone::text, entries = @entries::jsonb
WHERE name = @name::text AND (time_zone, entries) IS DISTINCT FROM (@time_zone::text, @entries::jsonb);

-- name: DeleteCalendar :execrows
DELETE FROM api.changeable_calendars WHERE name = @name::text;

-- name: CalendarConnectors :many
SELECT connector_id::integer AS connector_id FROM api.calendar_users WHERE calendar = @name::text ORDER BY connector_id LIMIT @most::integer;

-- name: CalendarBlackouts :many
SELECT name::text AS name FROM api.changeable_blackouts WHERE calendar = @name::text ORDER BY name LIMIT @most::integer;

-- name: GetCondition :one
SELECT * FROM api.conditions WHERE name = @name::text;

-- name: ListConditions :many
-- The query of each is null for who may not see it.
SELECT * FROM api.conditions WHERE name > @after::text ORDER BY name LIMIT @page::integer;

-- name: LockType :one
-- For a change. None of whom the viewer may not change.
SELECT * FROM api.changeable_types WHERE name = @name::text FOR UPDATE;

-- name: AddType :execrows
-- None where there is one of its name.
INSERT INTO api.changeable_types (name, kind, system, default_refresh_minutes, max_concurrent_syncs, concurrency_keys, provider)
VALUES (@name::text, @kind::text, @system::boolean, sqlc.narg('default_refresh_minutes')::integer, sqlc.narg('max_concurrent_syncs')::integer, sqlc.narg('concurrency_keys')::text[], sqlc.narg('provider')::text)
ON CONFLICT (name) DO NOTHING;

-- name: ChangeType :execrows
-- None where that changes nothing.
UPDATE api.changeable_types SET default_refresh_minutes = sqlc.narg('default_refresh_minutes')::integer, max_concurrent_syncs = sqlc.narg('max_concurrent_syncs')::integer,
    concurrency_keys = sqlc.narg('concurrency_keys')::text[], provider = sqlc.narg('provider')::text
WHERE name = @name::text AND (default_refresh_minutes, max_concurrent_syncs, concurrency_keys, provider) IS DISTINCT FROM
    (sqlc.narg('default_refresh_minutes')::integer, sqlc.narg('max_concurrent_syncs')::integer, sqlc.narg('concurrency_keys')::text[], sqlc.narg('provider')::text);
