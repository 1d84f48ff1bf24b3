-- name: DrainingRuns :many
-- The ends of the stream's order: what the stream has lost is before its first message or behind its last one. Read before the
-- stream is asked: what drains later may be newer than the stream's answer.
(SELECT id, drain_seq FROM open_runs WHERE drain_seq IS NOT NULL AND NOT whole ORDER BY drain_seq LIMIT @page::integer)
UNION
(SELECT id, drain_seq FROM open_runs WHERE drain_seq IS NOT NULL AND NOT whole ORDER BY drain_seq DESC LIMIT @page::integer);

-- name: FailLostInTransit :many
SELECT l.run_id::uuid AS run_id, l.connector_id::integer AS connector_id, l.type::text AS type, l.problem
FROM moves.fail_lost_in_transit(@candidates::uuid[], @first_seq::bigint, @last_seq::bigint, @apart::boolean) l;

-- name: Abandon :many
SELECT a.run_id::uuid AS run_id, a.connector_id::integer AS connector_id, a.type::text AS type, a.problem
FROM moves.abandon(@silent::jsonb, @foreign_timeout::interval, @batch::integer, @apart::boolean, @refused::integer[]) a;

-- name: FailNotTaken :many
SELECT n.run_id::uuid AS run_id, n.connector_id::integer AS connector_id, n.type::text AS type, n.problem
FROM moves.fail_not_taken(@batch::integer, @apart::boolean, @refused::integer[]) n;

-- name: IsFull :one
-- Whether Postgres takes no more connections, so that a worker which has lost its own cannot renew its lease.
SELECT count(*) >= current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer AS is_full
FROM pg_stat_activity WHERE datid IS NOT NULL;
