-- name: Uploaded :many
SELECT u.name::text AS name, u.object::uuid AS object, u.bytes::bigint AS bytes, u.sha256::bytea AS sha256 FROM moves.uploaded(@run_id, @try_id, @after::text, @page::integer) u;
