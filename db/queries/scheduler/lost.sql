-- name: PendingTypes :many
-- The types that have a run whose message has been on its way for longer than the grace: of each the first entry of its part
-- of the index.
SELECT t.name FROM connector_types t
CROSS JOIN LATERAL (
    SELECT r.dispatched_at FROM open_runs r WHERE r.type = t.name AND r.picked_up_at IS NULL
    ORDER BY r.dispatched_at LIMIT 1) earliest
WHERE earliest.dispatched_at < (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())) - @grace::interval
ORDER BY earliest.dispatched_at;

-- name: Redispatch :many
-- Where the oldest message says that it was dispatched in the future, its arrival is what is known of it.
SELECT r.run_id::uuid AS run_id, r.dispatched_at::timestamptz AS dispatched_at, r.dispatches::integer AS dispatches,
    r.reason::text AS reason, r.connector_id::integer AS connector_id, r.user_id::integer AS user_id, r.scope::text AS scope,
    r.scope_id, r.config::jsonb AS config, r.state::jsonb AS state, r.listing, r.config_version::bigint AS config_version
FROM moves.redispatch(@type::text,
    CASE WHEN sqlc.narg('oldest')::timestamptz > coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
        THEN sqlc.narg('arrived')::timestamptz ELSE sqlc.narg('oldest')::timestamptz END,
    @grace::interval, @max_grace::interval, @batch::integer, sqlc.narg('now')::timestamptz, @most_bytes::bigint) r;

-- name: NotePublished :one
SELECT moves.note_published(@answers::jsonb)::integer;

-- name: PendingLeft :one
-- How many connectors of these types may have lost their message; counted up to a bound.
SELECT count(*) FROM (
    SELECT FROM unnest(@types::text[]) t(name)
    JOIN open_runs r ON r.type = t.name AND r.picked_up_at IS NULL
        AND r.dispatched_at < (SELECT clock_timestamp()) - @grace::interval
    LIMIT @most::integer) pending;
