-- name: ListDocuments :many
SELECT source_id, title, url, media_type, status, error, chunk_count, updated_at
FROM documents
WHERE connector_id = @connector_id AND source_id > @after::text
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
ORDER BY source_id
LIMIT @page::integer;

-- name: GetDocument :one
SELECT status, error, updated_at FROM documents WHERE connector_id = @connector_id AND source_id = @source_id;
