-- name: BlackoutWindows :many
-- The windows with their times.
SELECT w.name::text AS name, w.mode::text AS mode, w.spread_minutes::integer AS spread_minutes, w.user_id, w.types::text[] AS types, w.except_connectors,
    w.version::bigint AS version, w.time_zone::text AS time_zone, w.entries::jsonb AS entries
FROM blackout_windows w ORDER BY w.name;

-- name: ListBlackouts :many
-- Those that the viewer sees, with their times.
SELECT b.name::text AS name, b.calendar::text AS calendar, b.user_id, b.type, b.provider, b.except_connectors::integer[] AS except_connectors, b.mode::text AS mode,
    b.spread_minutes::integer AS spread_minutes, b.updated_at::timestamptz AS updated_at, b.time_zone::text AS time_zone, b.entries::jsonb AS entries
FROM api.blackouts b WHERE b.name > @after::text ORDER BY b.name LIMIT @page::integer;
