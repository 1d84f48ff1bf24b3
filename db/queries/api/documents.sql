-- name: DocumentsOf :many
-- A page of the documents of some connectors, as the function says; the last row says as far as where it has looked, if there may be more. error is empty where there is none.
SELECT d.connector_id::integer AS connector_id, d.source_id::text AS source_id, d.title::text AS title, d.url::text AS url, d.media_type::text AS media_type, d.status::text AS status, coalesce(d.error, '')::text AS error,
    d.chunk_count::integer AS chunk_count, d.updated_at::timestamptz AS updated_at, d.is_end::boolean AS is_end
FROM api.documents_of(@connectors::integer[], @after::text, sqlc.narg('status')::text, sqlc.narg('prefix')::text, @page::integer, @bytes::bigint, @look::integer) d;

-- name: DocumentNumbers :many
-- The numbers of some documents of a connector that the viewer sees, each by its key: a plan from when there were few would read all of the connector's.
SELECT d.id, d.source_id FROM unnest(@names::text[]) n(name) CROSS JOIN LATERAL (SELECT o.id, o.source_id FROM api.documents o WHERE o.connector_id = @connector_id AND o.source_id = n.name OFFSET 0) d;

-- name: DocumentName :one
SELECT source_id FROM api.documents WHERE connector_id = @connector_id AND id = @id;
