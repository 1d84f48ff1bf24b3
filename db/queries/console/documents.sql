-- name: ListDocuments :many
SELECT id, source_id, title, url, media_type, status, error, chunk_count, updated_at
FROM documents
WHERE connector_id = @connector_id AND source_id > @after::text
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
ORDER BY source_id
LIMIT @page::integer;

-- name: DocumentName :one
SELECT source_id FROM documents WHERE id = @id AND connector_id = @connector_id;

-- name: GetDocument :one
SELECT status, error, updated_at FROM documents WHERE connector_id = @connector_id AND source_id = @source_id;

-- name: CountFailed :many
SELECT connector_id, count(*) AS failed FROM documents
WHERE connector_id = ANY(@connector_ids::integer[]) AND status = 'failed'
GROUP BY connector_id;

-- name: CountFound :many
-- How many documents search can find, stored ones and failed ones that are still found as they were.
SELECT connector_id, sum(documents)::bigint AS documents FROM document_counts
WHERE connector_id = ANY(@connector_ids::integer[])
GROUP BY connector_id;
