-- name: IsFull :one
-- Whether Postgres takes no more connections, so that a worker which has lost its own cannot renew its lease.
SELECT count(*) >= current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true), '0')::integer AS is_full
FROM pg_stat_activity WHERE datid IS NOT NULL;

-- name: Rescue :many
SELECT r.lost_run::uuid AS lost_run, r.run_id::uuid AS run_id, r.connector_id::integer AS connector_id, r.type::text AS type,
    r.user_id::integer AS user_id, r.scope::text AS scope, r.scope_id, r.config::jsonb AS config, r.state::jsonb AS state, r.listing,
    r.config_version::bigint AS config_version, r.dispatched_at, r.problem
FROM moves.rescue(@silent::jsonb, @foreign_timeout::interval, @batch::integer, @apart::boolean, @refused::integer[],
    @most_bytes::bigint) r;

-- name: LostLeft :one
-- How many runs lost workers hold; counted up to a bound.
SELECT count(*) FROM (
    SELECT FROM jsonb_to_recordset(@silent::jsonb) k(id uuid)
    JOIN open_runs r ON r.worker_id = k.id AND NOT r.whole
    LIMIT @most::integer) held;
