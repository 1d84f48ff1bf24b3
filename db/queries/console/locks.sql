-- name: ListLocks :many
-- Locks that runs hold, and those that somebody waits for, by key. waiting is not counted beyond 1,000. One that has run out is anybody's.
SELECT k.key::text AS key, l.epoch, l.run_id, l.connector_id, c.name AS connector_name, l.acquired_at, l.expires_at,
    (SELECT count(*) FROM (SELECT FROM lock_waiters w WHERE w.key = k.key AND w.expires_at > (SELECT clock_timestamp()) LIMIT 1000) n)::integer AS waiting
FROM (SELECT h.key FROM resource_locks h UNION SELECT q.key FROM lock_waiters q WHERE q.expires_at > (SELECT clock_timestamp())) k
LEFT JOIN resource_locks l ON l.key = k.key
LEFT JOIN connectors c ON c.id = l.connector_id
ORDER BY k.key
LIMIT @page::integer;

-- name: LockOf :many
-- The lock of a key, or no row.
SELECT l.*, c.name AS connector_name FROM resource_locks l LEFT JOIN connectors c ON c.id = l.connector_id WHERE l.key = @key;

-- name: ReleaseLock :many
SELECT r.run_id::uuid AS run_id, r.connector_id::integer AS connector_id, r.epoch::bigint AS epoch, r.expires_at::timestamptz AS expires_at
FROM moves.release_lock(@lock_key::text, sqlc.narg('lock_epoch')::bigint, @who::text) r;
