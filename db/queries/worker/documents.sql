-- name: KnownDocuments :many
-- A token counts only if it was stored under the connector's present configuration; a deleted document is
-- not known. seen: one of these sessions showed it in the present listing, up to the checkpoint that stands: marks are
-- the least that count.
SELECT d.source_id,
    (CASE WHEN d.config_version = @config_version::bigint THEN d.version_token ELSE '' END)::text AS version_token,
    (CASE WHEN d.config_version = @config_version::bigint THEN d.content_hash ELSE '' END)::text AS content_hash,
    coalesce(d.seen_mark >= l.mark, false)::boolean AS seen
FROM documents d
LEFT JOIN (SELECT unnest(@sessions::uuid[]) AS session, unnest(@marks::bigint[]) AS mark) l ON l.session = d.seen_by
WHERE d.connector_id = @connector_id AND d.status IN ('stored', 'failed') AND d.source_id > @after::text
ORDER BY d.source_id
LIMIT @page::integer;

-- name: DocumentLinks :one
SELECT links FROM documents
WHERE connector_id = @connector_id AND source_id = @source_id AND status IN ('stored', 'failed');
