-- name: BlackoutWindows :many
-- The windows with their times.
SELECT w.name::text AS name, w.mode::text AS mode, w.spread_minutes::integer AS spread_minutes, w.user_id, w.types::text[] AS types, w.except_connectors,
    w.version::bigint AS version, w.time_zone::text AS time_zone, w.entries::jsonb AS entries
FROM blackout_windows w ORDER BY w.name;

-- name: ListBlackouts :many
-- The windows, with how many connectors wait for the end of each: not counted beyond 10,000.
SELECT b.*, (SELECT count(*) FROM (SELECT FROM blackout_holds h WHERE h.blackout = b.name AND h.until > clock_timestamp() LIMIT 10000) n) AS held
FROM blackouts b ORDER BY b.name;

-- name: GetBlackout :one
SELECT * FROM blackouts WHERE name = @name;

-- name: PutBlackout :one
-- Adds a window, or replaces what one says.
INSERT INTO blackouts AS b (name, calendar, user_id, type, provider, except_connectors, mode, spread_minutes, created_by, updated_by)
VALUES (@name, @calendar, @user_id, @type, @provider, @except_connectors, @mode, @spread_minutes, @by, @by)
ON CONFLICT (name) DO UPDATE SET calendar = EXCLUDED.calendar, user_id = EXCLUDED.user_id, type = EXCLUDED.type, provider = EXCLUDED.provider,
    except_connectors = EXCLUDED.except_connectors, mode = EXCLUDED.mode, spread_minutes = EXCLUDED.spread_minutes, updated_by = EXCLUDED.updated_by
RETURNING *;

-- name: DeleteBlackout :execrows
DELETE FROM blackouts WHERE name = @name;
