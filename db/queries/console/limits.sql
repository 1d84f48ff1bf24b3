-- name: ListLimits :many
-- Limits of concurrency keys, with how many runs have places, and how many connectors wait: not counted beyond 10,000.
SELECT l.*, (SELECT count(*) FROM (SELECT FROM key_places p WHERE p.key = l.key LIMIT 10000) n) AS held,
    (SELECT count(*) FROM (SELECT FROM key_waiters w WHERE w.key = l.key LIMIT 10000) n) AS waiting
FROM concurrency_limits l ORDER BY l.key LIMIT @page::integer;

-- name: SetLimit :one
INSERT INTO concurrency_limits AS l (key, most, created_by, updated_by) VALUES (@key, @most, @by, @by)
ON CONFLICT (key) DO UPDATE SET most = EXCLUDED.most, updated_by = EXCLUDED.updated_by
RETURNING *;

-- name: RemoveLimit :execrows
DELETE FROM concurrency_limits WHERE key = @key;

-- name: KeysWaited :many
-- The concurrency keys that are waited for longest, of up to 10,000 connectors that wait: how many wait for each, the limit, and how many runs have places.
SELECT w.key::text AS key, w.waiting::bigint AS waiting, w.oldest::timestamptz AS oldest, l.most,
    (SELECT count(*) FROM (SELECT FROM key_places p WHERE p.key = w.key LIMIT 10000) n) AS held
FROM (SELECT k.key, count(*) AS waiting, min(k.due_at) AS oldest FROM (SELECT key, due_at FROM key_waiters LIMIT 10000) k GROUP BY k.key ORDER BY 3 LIMIT 20) w
LEFT JOIN concurrency_limits l ON l.key = w.key
ORDER BY w.oldest;
