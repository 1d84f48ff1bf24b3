-- name: SearchIndex :one
SELECT name, generation FROM search_index;

-- name: TakeTurnAtSearchIndex :one
-- One at a time brings changes to the index: what it read from Postgres is not overtaken.
SELECT name, generation FROM search_index FOR UPDATE;

-- name: FeedSearchIndex :one
-- The turn's number where it is our turn, so that later turns have larger ones; none where it is somebody else's, who feeds it.
UPDATE search_index SET fed_at = clock_timestamp()
WHERE name = @name::text AND single IN (SELECT i.single FROM search_index i FOR UPDATE SKIP LOCKED)
RETURNING nextval('search_index_turns')::bigint AS turn;

-- name: DropSearchIndex :exec
-- One that is lost, that another name has not kept for a while, or that was abandoned: this database may be an earlier one than
-- the index was fed from, restored from a backup. During a rolling upgrade the old name goes on.
DELETE FROM search_index
WHERE generation = sqlc.narg('lost')::uuid
    OR fed_at < clock_timestamp() - CASE WHEN name = @name THEN @abandoned::interval ELSE @handover::interval END;

-- name: LockDocumentsTable :exec
-- Every store before it is visible afterwards, every one behind it finds the row of search_index.
LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE;

-- name: BeginSearchIndex :exec
WITH begun AS (INSERT INTO search_index (name) VALUES (@name) ON CONFLICT DO NOTHING RETURNING name)
INSERT INTO search_index_changes (document_id) SELECT NULL FROM begun;

-- name: QueueDocuments :execrows
-- Of a connector, or of all.
INSERT INTO search_index_changes (document_id, connector_id, is_handed_over)
SELECT id, connector_id, true FROM documents WHERE try_id IS NOT NULL AND connector_id = sqlc.narg('connector_id')
UNION ALL
SELECT id, connector_id, false FROM documents WHERE try_id IS NOT NULL AND sqlc.narg('connector_id') IS NULL;

-- name: RunsToFind :many
-- Of these, the open runs that are whole, and whether all that their connectors have changed is in the index. Where the index has
-- another name, nothing waits for it.
SELECT r.id, coalesce(i.name <> @name::text OR i.name IS NOT NULL
        AND NOT EXISTS (SELECT FROM search_index_changes w WHERE w.connector_id IS NULL)
        AND NOT EXISTS (SELECT FROM search_index_changes w WHERE w.connector_id = r.connector_id), false)::boolean AS found
FROM open_runs r LEFT JOIN search_index i ON true
WHERE r.whole AND r.id = ANY(@ids::uuid[]);

-- name: HandedOver :many
-- The next connectors behind one, by number, of which changes wait because they were handed over.
WITH RECURSIVE k AS (
    (SELECT c.connector_id FROM search_index_changes c WHERE c.is_handed_over AND c.connector_id > @after::integer ORDER BY c.connector_id LIMIT 1)
    UNION ALL
    SELECT (SELECT c.connector_id FROM search_index_changes c WHERE c.is_handed_over AND c.connector_id > k.connector_id ORDER BY c.connector_id LIMIT 1)
    FROM k WHERE k.connector_id IS NOT NULL
)
SELECT k.connector_id::integer AS connector_id FROM k WHERE k.connector_id IS NOT NULL LIMIT @most::integer;

-- name: SearchIndexChanges :many
-- The first ones: everything, where that waits, else those of the connectors of runs, in turns, those that were handed over of connectors, in turns, or of all. With what their documents
-- show now; those that are gone, or show nothing, have no try.
WITH waiting AS (
    (SELECT id, document_id, connector_id, 0::bigint AS place, 0::bigint AS no FROM search_index_changes WHERE connector_id IS NULL ORDER BY id LIMIT 1)
    UNION ALL
    (SELECT f.id, f.document_id, f.connector_id, f.place, 0
        FROM (SELECT DISTINCT r.connector_id FROM open_runs r WHERE r.id = ANY(@run_ids::uuid[])) k
        CROSS JOIN LATERAL (SELECT c.id, c.document_id, c.connector_id, row_number() OVER (ORDER BY c.id) AS place FROM search_index_changes c
            WHERE c.connector_id = k.connector_id ORDER BY c.id LIMIT @batch::integer) f
        ORDER BY f.place, f.id LIMIT @batch::integer)
    UNION ALL
    (SELECT f.id, f.document_id, f.connector_id, f.place, k.no
        FROM unnest(@handed_over::integer[]) WITH ORDINALITY k(connector_id, no)
        CROSS JOIN LATERAL (SELECT c.id, c.document_id, c.connector_id, row_number() OVER (ORDER BY c.id) AS place FROM search_index_changes c
            WHERE c.is_handed_over AND c.connector_id = k.connector_id ORDER BY c.id LIMIT @batch::integer) f
        ORDER BY f.place, k.no LIMIT @batch::integer)
    UNION ALL
    (SELECT id, document_id, connector_id, 0, 0 FROM search_index_changes
        WHERE coalesce(cardinality(@run_ids::uuid[]), 0) = 0 AND coalesce(cardinality(@handed_over::integer[]), 0) = 0 AND connector_id IS NOT NULL ORDER BY id LIMIT @batch::integer)
)
SELECT array_agg(w.id)::bigint[] AS ids, w.document_id, w.connector_id, d.try_id, d.first_no,
    coalesce(d.chunk_count, 0)::integer AS chunks,
    coalesce(CASE k.scope WHEN 'user' THEN 'user_' || k.user_id WHEN 'group' THEN 'group_' || k.scope_id ELSE k.scope END, '')::text AS scope
FROM waiting w
LEFT JOIN connectors k ON k.id = w.connector_id
LEFT JOIN documents d ON d.id = w.document_id AND d.config_version >= k.added_version   -- before it are those of a deleted connector of the same id
GROUP BY w.document_id, w.connector_id, d.id, k.id
ORDER BY w.connector_id IS NOT NULL, min(w.place), min(w.no), min(w.id);

-- name: ChunksToIndex :many
-- A page behind a chunk. Of a text as much as words are taken from.
SELECT c.document_id, c.no, left(c.text, @letters::integer) AS text, c.embedding
FROM (SELECT unnest(@try_ids::uuid[]) AS try_id, unnest(@first_nos::bigint[]) AS first_no, unnest(@ids::bigint[]) AS id) k
CROSS JOIN LATERAL (
    SELECT * FROM chunks
    WHERE try_id = k.try_id AND first_no = k.first_no AND document_id = k.id
        AND no > CASE k.id WHEN @after_id::bigint THEN @after_no::integer ELSE -1 END AND embedder = @embedder
    ORDER BY no LIMIT @page::integer
) c
WHERE k.id >= @after_id::bigint
ORDER BY c.document_id, c.no LIMIT @page::integer;

-- name: ForgetSearchIndexChanges :exec
DELETE FROM search_index_changes WHERE id = ANY(@ids::bigint[]);

-- name: CountSearchIndexChanges :one
-- Up to a limit, so that a long queue is not read at every look.
SELECT count(*) FROM (SELECT FROM search_index_changes LIMIT @most::integer) c;

-- name: TakeReviewOfSearchIndex :one
-- The turn, once nobody else has it, where a page is to be reviewed.
UPDATE search_index SET fed_at = clock_timestamp()
WHERE name = @name::text AND review_at <= clock_timestamp()
    AND single IN (SELECT i.single FROM search_index i FOR UPDATE)
RETURNING name, generation, coalesce(review_from, '')::text AS review_from, nextval('search_index_turns')::bigint AS turn;

-- name: QueueOutdated :one
-- Queues the documents of points that SearchIndexChanges would write otherwise, or not at all, unless they wait already. It
-- returns how many such points there are; -1 where so many changes wait that they are to be brought first.
WITH waiting AS MATERIALIZED (
    SELECT document_id, connector_id FROM search_index_changes ORDER BY id LIMIT @long::integer
), few AS MATERIALIZED (
    SELECT count(*) < @long::integer AS are FROM waiting
), outdated AS MATERIALIZED (
    SELECT p.document_id, coalesce(d.connector_id, p.connector_id) AS connector_id
    FROM (SELECT unnest(@ids::bigint[]) AS document_id, unnest(@connector_ids::integer[]) AS connector_id,
        unnest(@try_ids::uuid[]) AS try_id, unnest(@first_nos::bigint[]) AS first_no, unnest(@scopes::text[]) AS scope) p
    LEFT JOIN LATERAL (SELECT connector_id, try_id, first_no, config_version FROM documents WHERE id = p.document_id LIMIT 1) d ON true
    LEFT JOIN LATERAL (SELECT added_version, scope, user_id, scope_id FROM connectors WHERE id = d.connector_id LIMIT 1) k ON true
    WHERE NOT coalesce(d.config_version >= k.added_version
        AND (d.connector_id, d.try_id, d.first_no) = (p.connector_id, p.try_id, p.first_no)
        AND p.scope = CASE k.scope WHEN 'user' THEN 'user_' || k.user_id WHEN 'group' THEN 'group_' || k.scope_id ELSE k.scope END, false)
), unknown AS (
    SELECT * FROM outdated o
    WHERE (SELECT are FROM few) AND NOT EXISTS (SELECT FROM waiting w WHERE w.document_id = o.document_id)
        AND NOT EXISTS (SELECT FROM waiting w WHERE w.document_id IS NULL AND (w.connector_id = o.connector_id OR w.connector_id IS NULL))
), queued AS (
    INSERT INTO search_index_changes (document_id, connector_id) SELECT DISTINCT document_id, connector_id FROM unknown
)
SELECT CASE WHEN (SELECT are FROM few) THEN count(*) ELSE -1 END::bigint AS found FROM unknown;

-- name: KeepReviewOfSearchIndex :exec
UPDATE search_index SET review_from = sqlc.narg('review_from'), review_at = clock_timestamp() + @pause::interval;

-- name: SweepSearchIndexChanges :execrows
DELETE FROM search_index_changes
WHERE id IN (SELECT c.id FROM search_index_changes c ORDER BY c.id LIMIT @batch::integer)
    AND NOT EXISTS (SELECT FROM search_index);
