-- name: SearchIndex :one
SELECT name, filled FROM search_index;

-- name: LockDocumentsTable :exec
-- Every store before it is visible afterwards, every one behind it finds the row of search_index.
LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE;

-- name: BeginSearchIndex :execrows
-- One under another name is replaced when nobody keeps it any more: during a rolling upgrade the old one goes on.
INSERT INTO search_index AS i (name) VALUES (@name)
ON CONFLICT (single) DO UPDATE SET name = EXCLUDED.name, filled = false, fed_at = clock_timestamp()
    WHERE i.fed_at < clock_timestamp() - CASE WHEN i.name = EXCLUDED.name THEN @abandoned::interval ELSE @handover::interval END;

-- name: FeedSearchIndex :execrows
-- Not one that was abandoned: this database may be an earlier one than the index was fed from, restored from a backup.
UPDATE search_index SET fed_at = clock_timestamp()
WHERE name = @name AND fed_at >= clock_timestamp() - @abandoned::interval;

-- name: AwaitTurnAtSearchIndex :exec
-- One at a time brings changes to the index: what it read from Postgres is not overtaken.
SELECT pg_advisory_xact_lock(hashtextextended('search_index', 0));

-- name: TurnAtSearchIndex :one
-- Asked when it is our turn, so that later turns have larger numbers.
SELECT nextval('search_index_turns')::bigint;

-- name: EmptySearchIndexChanges :exec
DELETE FROM search_index_changes;

-- name: QueueEveryDocument :execrows
INSERT INTO search_index_changes (document_id, session)
SELECT id, session FROM documents WHERE session IS NOT NULL;

-- name: SetSearchIndexFilled :exec
UPDATE search_index SET filled = @filled WHERE name = @name;

-- name: SearchIndexChanges :many
SELECT id FROM search_index_changes ORDER BY id LIMIT @batch::integer;

-- name: SearchIndexChangesOf :many
SELECT id FROM search_index_changes WHERE session = @session ORDER BY id LIMIT @batch::integer;

-- name: ChangedDocuments :many
-- Those that are gone, or show nothing, have no session.
SELECT c.document_id, d.connector_id, d.session, d.first_no
FROM search_index_changes c LEFT JOIN documents d ON d.id = c.document_id
WHERE c.id = ANY(@ids::bigint[]);

-- name: ChunksToIndex :many
-- A page of them, behind the key @after_…, in the order of their key; of a text as much as words are taken from.
SELECT c.session, c.first_no, c.document_id, c.no, left(c.text, @letters::integer) AS text, c.embedding
FROM (SELECT unnest(@sessions::uuid[]) AS session, unnest(@first_nos::bigint[]) AS first_no, unnest(@ids::bigint[]) AS id) k
JOIN chunks c ON c.session = k.session AND c.first_no = k.first_no AND c.document_id = k.id
WHERE c.embedder = @embedder
    AND (c.session, c.first_no, c.document_id, c.no)
        > (@after_session::uuid, @after_first_no::bigint, @after_document::bigint, @after_no::integer)
ORDER BY c.session, c.first_no, c.document_id, c.no
LIMIT @page::integer;

-- name: ForgetSearchIndexChanges :exec
DELETE FROM search_index_changes WHERE id = ANY(@ids::bigint[]);

-- name: CountSearchIndexChanges :one
-- Up to a limit, so that a long queue is not read at every look.
SELECT count(*) FROM (SELECT FROM search_index_changes LIMIT @most::integer) c;

-- name: AbandonSearchIndex :exec
-- What nobody keeps any more does not gather changes.
WITH gone AS (DELETE FROM search_index WHERE fed_at < clock_timestamp() - @abandoned::interval RETURNING 1)
DELETE FROM search_index_changes WHERE EXISTS (SELECT FROM gone) OR NOT EXISTS (SELECT FROM search_index);

-- name: ReadableConnectors :many
SELECT id FROM connectors k
WHERE (k.scope = 'user' AND k.user_id = @user_id)
    OR k.scope = 'org'
    OR (k.scope = 'group' AND k.scope_id = ANY(@groups::text[]));
