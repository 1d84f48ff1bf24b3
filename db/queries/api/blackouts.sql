-- name: BlackoutWindows :many
-- The windows with their times.
SELECT w.name::text AS name, w.mode::text AS mode, w.spread_minutes::integer AS spread_minutes, w.user_id, w.types::text[] AS types, w.except_connectors,
    w.version::bigint AS version, w.time_zone::text AS time_zone, w.entries::jsonb AS entries
FROM blackout_windows w ORDER BY w.name;
