-- name: StoredUpTo :many
SELECT s.try::uuid AS try_id, s.no::bigint AS no FROM moves.stored_up_to(@try_ids::uuid[]) s;

-- name: StoredOfAll :one
-- How many messages of anybody's were stored, as Postgres's statistics count, which may begin anew: whether it changes says whether any is.
SELECT coalesce(pg_stat_get_tuples_inserted('run_messages'::regclass), 0)::bigint;
