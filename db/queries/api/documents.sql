-- name: DocumentsThrough :one
-- The document that is so many behind another; no row where there are not so many.
SELECT t.source_id::text AS source_id FROM (SELECT api.documents_through(@connector_id::integer, @after::text, @look::integer) AS source_id) t WHERE t.source_id IS NOT NULL;

-- name: ListDocuments :many
-- A page of a connector's documents by their names, up to one that DocumentsThrough says; null: to the last. since is what SeenSince says.
SELECT * FROM api.documents
WHERE connector_id = @connector_id AND config_version >= @since::bigint AND source_id > @after::text AND (sqlc.narg('through')::text IS NULL OR source_id <= sqlc.narg('through'))
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
ORDER BY source_id
LIMIT @page::integer;
