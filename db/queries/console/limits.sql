-- name: ListLimits :many
-- Limits of concurrency keys, with how many runs have places, and how many connectors wait: not counted beyond 10,000.
SELECT l.*, (SELECT count(*) FROM key_places p WHERE p.key = l.key AND (l.user_ids IS NULL OR p.user_id = ANY (l.user_ids))) AS held,
    (SELECT count(*) FROM (SELECT FROM key_waiters w WHERE w.key = l.key LIMIT 10000) n) AS waiting
FROM concurrency_limits l ORDER BY l.key LIMIT @page::integer;

-- name: SetLimit :one
INSERT INTO concurrency_limits AS l (key, most, user_ids, created_by, updated_by) VALUES (@key, @most, sqlc.narg('user_ids')::integer[], @by, @by)
ON CONFLICT (key) DO UPDATE SET most = EXCLUDED.most, user_ids = CASE WHEN @sets_users::boolean THEN EXCLUDED.user_ids ELSE l.user_ids END,
    updated_by = EXCLUDED.updated_by
RETURNING *;

-- name: RemoveLimit :execrows
DELETE FROM concurrency_limits WHERE key = @key;
