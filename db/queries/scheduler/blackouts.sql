-- name: Blackouts :many
-- The windows, without their times.
SELECT w.name::text AS name, w.mode::text AS mode, w.spread_minutes::integer AS spread_minutes, w.user_id, w.types::text[] AS types, w.except_connectors,
    w.version::bigint AS version, w.calendar_version::bigint AS calendar_version
FROM blackout_windows w ORDER BY w.name;

-- name: HoldBlackout :one
SELECT moves.hold_blackout(@holds::jsonb)::integer;

-- name: ReleaseHeld :one
SELECT moves.release_held(@batch::integer)::integer;
