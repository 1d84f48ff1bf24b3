-- name: SearchIndex :one
SELECT name, generation, filled FROM search_index;

-- name: FeedSearchIndex :execrows
-- Not one that was abandoned: this database may be an earlier one than the index was fed from, restored from a backup.
UPDATE search_index SET fed_at = clock_timestamp()
WHERE name = @name AND fed_at >= clock_timestamp() - @abandoned::interval;

-- name: RenewSearchIndex :execrows
-- One under another name is replaced when nobody keeps it any more: during a rolling upgrade the old one goes on.
UPDATE search_index SET name = @name, generation = gen_random_uuid(), filled = false, fed_at = clock_timestamp()
WHERE fed_at < clock_timestamp() - CASE WHEN name = @name THEN @abandoned::interval ELSE @handover::interval END;

-- name: LockDocumentsTable :exec
-- Every store before it is visible afterwards, every one behind it finds the row of search_index.
LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE;

-- name: BeginSearchIndex :exec
INSERT INTO search_index (name) VALUES (@name) ON CONFLICT DO NOTHING;

-- name: LoseSearchIndex :exec
UPDATE search_index SET generation = gen_random_uuid(), filled = false WHERE generation = @generation;

-- name: AwaitTurnAtSearchIndex :exec
-- One at a time brings changes to the index: what it read from Postgres is not overtaken.
SELECT pg_advisory_xact_lock(hashtextextended('search_index', 0));

-- name: TurnAtSearchIndex :one
-- Asked when it is our turn, so that later turns have larger numbers.
SELECT nextval('search_index_turns')::bigint;

-- name: EmptySearchIndexChanges :exec
DELETE FROM search_index_changes;

-- name: QueueEveryDocument :execrows
INSERT INTO search_index_changes (document_id, connector_id)
SELECT id, connector_id FROM documents WHERE try_id IS NOT NULL;

-- name: SearchIndexIsFilled :exec
UPDATE search_index SET filled = true, fed_at = clock_timestamp() WHERE generation = @generation;

-- name: SearchIndexChanges :many
SELECT id FROM search_index_changes ORDER BY id LIMIT @batch::integer;

-- name: SearchIndexChangesBefore :many
-- Those of a run's connector.
SELECT c.id FROM search_index_changes c
WHERE c.connector_id = (SELECT r.connector_id FROM open_runs r WHERE r.id = @run_id)
ORDER BY c.id LIMIT @batch::integer;

-- name: ChangedDocuments :many
-- Those that are gone, or show nothing, have no try.
SELECT c.id, c.document_id, d.connector_id, d.try_id, d.first_no, coalesce(d.chunk_count, 0)::integer AS chunks
FROM search_index_changes c LEFT JOIN documents d ON d.id = c.document_id
WHERE c.id = ANY(@ids::bigint[])
ORDER BY c.id;

-- name: ChunksToIndex :many
-- Of a text as much as words are taken from. Of one document a page behind @after_no; of several all.
SELECT c.try_id, c.first_no, c.document_id, c.no, left(c.text, @letters::integer) AS text, c.embedding
FROM (SELECT unnest(@try_ids::uuid[]) AS try_id, unnest(@first_nos::bigint[]) AS first_no, unnest(@ids::bigint[]) AS id) k
JOIN chunks c ON c.try_id = k.try_id AND c.first_no = k.first_no AND c.document_id = k.id
WHERE c.embedder = @embedder AND c.no > @after_no
ORDER BY c.try_id, c.first_no, c.document_id, c.no
LIMIT @page::integer;

-- name: ForgetSearchIndexChanges :exec
DELETE FROM search_index_changes WHERE id = ANY(@ids::bigint[]);

-- name: CountSearchIndexChanges :one
-- Up to a limit, so that a long queue is not read at every look.
SELECT count(*) FROM (SELECT FROM search_index_changes LIMIT @most::integer) c;

-- name: AbandonSearchIndex :exec
-- What nobody keeps any more does not gather changes.
DELETE FROM search_index WHERE fed_at < clock_timestamp() - @abandoned::interval;

-- name: SweepSearchIndexChanges :execrows
DELETE FROM search_index_changes
WHERE id IN (SELECT c.id FROM search_index_changes c ORDER BY c.id LIMIT @batch::integer)
    AND NOT EXISTS (SELECT FROM search_index);

-- name: ReadableConnectors :many
SELECT id FROM connectors k
WHERE (k.scope = 'user' AND k.user_id = @user_id)
    OR k.scope = 'org'
    OR (k.scope = 'group' AND k.scope_id = ANY(@groups::text[]));
