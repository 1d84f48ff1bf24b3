-- name: Known :many
SELECT k.source_id::text AS source_id, k.version_token::text AS version_token, k.content_hash::text AS content_hash,
    k.seen::boolean AS seen, coalesce(k.memo::text, '')::text AS memo,
    k.refused_token::text AS refused_token, k.found::boolean AS found
FROM moves.known(@run_id, @try_id, @after::text, @page::integer, @try_ids::uuid[], @listings::integer[], @nos::bigint[]) k;

-- name: Links :one
SELECT l.links::text[] AS links FROM moves.links(@run_id, @try_id, @source_id::text) l(links);

-- name: DeletionsAllowed :one
SELECT moves.deletions_allowed(@run_id, @try_id)::boolean;
