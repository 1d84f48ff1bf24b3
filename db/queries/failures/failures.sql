-- name: FailedDocuments :many
-- Why documents of a connector are failed, the most frequent reason first. Reasons that differ in large numbers or addresses alone
-- are one; reason is one of them.
SELECT min(error)::text AS reason, count(*) AS documents, sum(count(*)) OVER ()::bigint AS all_documents, count(*) OVER () AS reasons
FROM documents
WHERE connector_id = @connector_id AND status = 'failed' AND EXISTS (SELECT FROM connectors WHERE id = @connector_id)
GROUP BY regexp_replace(left(error, 300), '[a-z]+://[^ ]+|[0-9]{4,}', '', 'g')
ORDER BY count(*) DESC, min(error)
LIMIT @page::integer;

-- name: SeenFailedDocuments :many
-- The same of a connector that the viewer sees.
SELECT f.reason::text AS reason, f.documents::bigint AS documents, f.all_documents::bigint AS all_documents, f.reasons::bigint AS reasons
FROM api.failed_documents(@connector_id::integer, @page::integer) f;

-- name: SeenInPart :one
-- Whether a connector has more documents than SeenFailedDocuments looks at.
SELECT (api.documents_through(@connector_id::integer, '', 99999) IS NOT NULL)::boolean AS in_part;
