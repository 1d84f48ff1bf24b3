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
