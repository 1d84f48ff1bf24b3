-- name: BlackoutWindows :many
-- The windows with their times.
SELECT w.name::text AS name, w.mode::text AS mode, w.spread_minutes::integer AS spread_minutes, w.user_id, w.types::text[] AS types, w.except_connectors,
    w.version::bigint AS version, w.time_zone::text AS time_zone, w.entries::jsonb AS entries
FROM blackout_windows w ORDER BY w.name;

-- name: ListBlackouts :many
-- Those that the viewer sees, with their times.
SELECT b.name::text AS name, b.calendar::text AS calendar, b.user_id, b.type, b.provider, b.except_connectors::integer[] AS except_connectors, b.mode::text AS mode,
    b.spread_minutes::integer AS spread_minutes, b.updated_at::timestamptz AS updated_at, b.version::bigint AS version, b.time_zone::text AS time_zone, b.entries::jsonb AS entries,
    b.created_at::timestamptz AS created_at, b.created_by, b.updated_by, b.held
FROM api.blackouts b WHERE b.name > @after::text ORDER BY b.name LIMIT @page::integer;

-- name: GetBlackout :one
-- One that the viewer sees, with its times.
SELECT b.name::text AS name, b.calendar::text AS calendar, b.user_id, b.type, b.provider, b.except_connectors::integer[] AS except_connectors, b.mode::text AS mode,
    b.spread_minutes::integer AS spread_minutes, b.updated_at::timestamptz AS updated_at, b.version::bigint AS version, b.time_zone::text AS time_zone, b.entries::jsonb AS entries,
    b.created_at::timestamptz AS created_at, b.created_by, b.updated_by, b.held
FROM api.blackouts b WHERE b.name = @name::text;

-- name: LockBlackout :one
-- For a change. None of whom the viewer may not change.
SELECT version::bigint AS version FROM api.changeable_blackouts WHERE name = @name::text FOR UPDATE;

-- name: AddBlackout :execrows
-- None where there is one of its name.
INSERT INTO api.changeable_blackouts (name, calendar, user_id, type, provider, except_connectors, mode, spread_minutes)
VALUES (@name::text, @calendar::text, sqlc.narg('user_id')::integer, sqlc.narg('type')::text, sqlc.narg('provider')::text, sqlc.narg('except_connectors')::integer[], @mode::text, @spread_minutes::integer)
ON CONFLICT (name) DO NOTHING;

-- name: ChangeBlackout :execrows
-- None where that changes nothing.
UPDATE api.changeable_blackouts SET calendar = @calendar::text, user_id = sqlc.narg('user_id')::integer, type = sqlc.narg('type')::text, provider = sqlc.narg('provider')::text,
    except_connectors = sqlc.narg('except_connectors')::integer[], mode = @mode::text, spread_minutes = @spread_minutes::integer
WHERE name = @name::text AND (calendar, user_id, type, provider, except_connectors, mode, spread_minutes)
    IS DISTINCT FROM (@calendar::text, sqlc.narg('user_id')::integer, sqlc.narg('type')::text, sqlc.narg('provider')::text, sqlc.narg('except_connectors')::integer[], @mode::text, @spread_minutes::integer);

-- name: DeleteBlackout :execrows
DELETE FROM api.changeable_blackouts WHERE name = @name::text;
