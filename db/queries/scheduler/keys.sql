-- name: KeysOf :many
-- Within the transaction of Claim, where a connector or its type names a concurrency key.
SELECT k.id::integer AS id, k.keys::text[] AS keys FROM moves.keys_of(@ids::integer[]) k;

-- name: KeyRoom :many
SELECT k.key::text AS key, k.room::integer AS room FROM moves.key_room(@keys::text[], @claims::boolean) k;

-- name: Park :one
SELECT moves.park(@ids::integer[], @full_keys::text[])::integer;

-- name: WaitingKeys :many
SELECT k.key::text AS key, k.room::integer AS room, k.named::boolean AS named FROM moves.waiting_keys(@hints::text[], @after::text, @most::integer) k;

-- name: LockWaiting :many
SELECT k.id::integer AS id, k.user_id::integer AS user_id FROM moves.lock_waiting(@full_key::text, @room::integer, @served::integer, @refused::integer[]) k;

-- name: LockStale :one
SELECT coalesce(k.last, 0)::integer AS last, k.stale::integer[] AS stale FROM moves.lock_stale(@after::integer, @most::integer, @refused::integer[]) k;

-- name: Unpark :one
SELECT moves.unpark(@ids::integer[])::integer;

-- name: KeysWaited :one
-- For the metrics: how many connectors wait for concurrency keys, and for how many keys, both counted up to 100,000 connectors; since when the first
-- does, in seconds; and how many places runs have.
SELECT w.waiting::bigint AS waiting, w.keys::bigint AS keys, w.oldest::float8 AS oldest,
    (SELECT count(*) FROM (SELECT FROM key_places LIMIT 100000) p)::bigint AS places
FROM (SELECT count(*) AS waiting, count(DISTINCT k.key) AS keys, coalesce(extract(epoch FROM clock_timestamp() - min(k.due_at)), 0) AS oldest
    FROM (SELECT key, due_at FROM key_waiters LIMIT 100000) k) w;
