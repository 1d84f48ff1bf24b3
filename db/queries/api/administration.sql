-- name: ListLocks :many
SELECT * FROM api.locks WHERE key = ANY (@keys::text[]) ORDER BY key;

-- name: LockKeys :one
SELECT coalesce(api.lock_keys(@after::text, @page::integer), '{}')::text[] AS keys;

-- name: ReleaseLock :many
SELECT r.epoch::bigint AS epoch, r.expires_at::timestamptz AS expires_at FROM moves.release_lock(@lock_key::text, sqlc.narg('lock_epoch')::bigint, @who::text) r;

-- name: ListLimits :many
-- users: of whom the viewer sees any; null: of everybody.
SELECT * FROM api.limits WHERE user_id > @after::integer AND (sqlc.narg('users')::integer[] IS NULL OR user_id = ANY (sqlc.narg('users')::integer[])) ORDER BY user_id LIMIT @page::integer;
