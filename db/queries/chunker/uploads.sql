-- name: Uploaded :many
SELECT u.name::text AS name, u.object::uuid AS object, u.bytes::bigint AS bytes FROM moves.uploaded(@run_id, @try_id, @after::text, @page::integer) u;
