-- name: SearchHit :one
-- Asked again with the owner's condition: the connector may have changed hands since the vectors were read.
SELECT k.id AS connector_id, k.name AS connector, d.source_id, d.title, d.url, c.text, c.heading_path,
    c.start_offset, c.end_offset
FROM chunks c
JOIN documents d ON d.id = c.document_id AND d.try_id = c.try_id AND d.first_no = c.first_no
    AND d.deleted_at IS NULL
JOIN connectors k ON k.id = d.connector_id
WHERE c.try_id = @try_id AND c.first_no = @first_no AND c.document_id = @document_id AND c.no = @no AND (
    (k.scope = 'user' AND k.user_id = @user_id::integer)
    OR k.scope = 'org'
    OR (k.scope = 'group' AND k.scope_id = ANY(@groups::text[])))
    -- What a deleted connector has left is nobody's, also where another was put back under its id.
    AND d.config_version >= k.added_version;
