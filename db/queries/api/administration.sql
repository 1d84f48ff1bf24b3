-- name: ListLocks :many
SELECT * FROM api.locks WHERE key = ANY (@keys::text[]) ORDER BY key;

-- name: LockKeys :one
SELECT coalesce(api.lock_keys(@after::text, @page::integer), '{}')::text[] AS keys;

-- name: ReleaseLock :many
SELECT r.epoch::bigint AS epoch, r.expires_at::timestamptz AS expires_at FROM moves.release_lock(@lock_key::text, sqlc.narg('lock_epoch')::bigint, @who::text) r;

-- name: ListLimits :many
-- users: only these; null: everybody.
SELECT * FROM api.limits WHERE user_id > @after::integer AND (sqlc.narg('users')::integer[] IS NULL OR user_id = ANY (sqlc.narg('users')::integer[])) ORDER BY user_id LIMIT @page::integer;

-- name: ListCalendars :many
SELECT name, version, time_zone, jsonb_array_length(entries)::integer AS entries, updated_at FROM calendars WHERE name > @after::text ORDER BY name LIMIT @page::integer;

-- name: GetCalendar :one
SELECT name, version, time_zone, entries, jsonb_array_length(entries)::integer AS count, updated_at FROM calendars WHERE name = @name::text;

-- name: ListConditions :many
-- The query of each is null for who may not see it.
SELECT * FROM api.conditions WHERE name > @after::text ORDER BY name LIMIT @page::integer;
