-- name: SearchedSources :many
-- The sources that a search is over, by number; null: of every number, of every scope.
SELECT id, name, last_sync_at FROM api.sources
WHERE id <= @through::integer
    AND (sqlc.narg('ids')::integer[] IS NULL OR id = ANY (sqlc.narg('ids')::integer[]))
    AND (sqlc.narg('scope')::text IS NULL OR scope = sqlc.narg('scope'))
ORDER BY id
LIMIT @most::integer;
