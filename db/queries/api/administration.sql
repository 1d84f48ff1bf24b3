-- name: ListLocks :many
SELECT * FROM api.locks WHERE key > @after::text ORDER BY key LIMIT @page::integer;

-- name: ReleaseLock :many
SELECT r.epoch::bigint AS epoch, r.expires_at::timestamptz AS expires_at FROM moves.release_lock(@lock_key::text, sqlc.narg('lock_epoch')::bigint, @who::text) r;

-- name: ListLimits :many
SELECT * FROM api.limits WHERE user_id > @after::integer ORDER BY user_id LIMIT @page::integer;
