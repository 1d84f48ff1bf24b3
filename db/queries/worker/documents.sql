-- name: KnownDocuments :many
-- A token counts only if it was stored under the connector's present configuration; a deleted document is
-- not known. seen: one of these tries showed it, in that listing of its, by that number.
SELECT d.source_id,
    (CASE WHEN d.config_version = @config_version::bigint THEN d.version_token ELSE '' END)::text AS version_token,
    (CASE WHEN d.config_version = @config_version::bigint THEN d.content_hash ELSE '' END)::text AS content_hash,
    EXISTS (
        SELECT 1
        FROM (SELECT unnest(@try_ids::uuid[]) AS try_id, unnest(@listings::integer[]) AS listing,
            unnest(@nos::bigint[]) AS no) l
        JOIN sightings s ON s.connector_id = d.connector_id AND s.try_id = l.try_id AND s.listing = l.listing
            AND s.source_id = d.source_id AND s.no <= l.no) AS seen
FROM documents d
WHERE d.connector_id = @connector_id AND d.status IN ('stored', 'failed') AND d.source_id > @after::text
ORDER BY d.source_id
LIMIT @page::integer;

-- name: DocumentLinks :one
SELECT links FROM documents
WHERE connector_id = @connector_id AND source_id = @source_id AND status IN ('stored', 'failed');
