-- name: CountMessages :many
-- The numbers that were not counted yet; those are the ones to store.
INSERT INTO run_messages (session, no, first_no)
SELECT @session, unnest(@nos::bigint[]), unnest(@first_nos::bigint[])
ON CONFLICT DO NOTHING
RETURNING no;

-- name: LockDocuments :many
-- Locks the rows, sorted by source_id, creating those that are new.
INSERT INTO documents (connector_id, source_id)
SELECT @connector_id, s.source_id FROM (SELECT unnest(@source_ids::text[]) AS source_id) s ORDER BY s.source_id
ON CONFLICT (connector_id, source_id) DO UPDATE SET updated_at = clock_timestamp()
RETURNING id, source_id, content_hash, chunk_count, status, session, first_no, written_by, written_no,
    config_version;

-- name: CountParts :many
-- Asked after the documents are locked: of two workers with the two parts of one document the second
-- sees the first one's part.
SELECT first_no, count(*) AS parts FROM run_messages
WHERE session = @session AND first_no = ANY(@first_nos::bigint[])
GROUP BY first_no;

-- name: WriteDocuments :exec
UPDATE documents d
SET title = coalesce(nullif(w.title, ''), d.title), url = coalesce(nullif(w.url, ''), d.url), media_type = w.media_type, content_hash = w.content_hash,
    version_token = w.version_token, chunk_count = w.chunk_count, status = w.status, error = nullif(w.error, ''),
    written_by = @written_by::uuid, written_no = w.no, session = nullif(w.session, '00000000-0000-0000-0000-000000000000'),
    first_no = nullif(w.first_no, 0),
    config_version = @config_version::bigint, updated_at = clock_timestamp(),
    links = ARRAY(SELECT jsonb_array_elements_text(w.links)),
    deleted_at = CASE WHEN w.status = 'deleted' THEN clock_timestamp() END
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@nos::bigint[]) AS no, unnest(@titles::text[]) AS title,
    unnest(@urls::text[]) AS url, unnest(@media_types::text[]) AS media_type,
    unnest(@content_hashes::text[]) AS content_hash, unnest(@version_tokens::text[]) AS version_token,
    unnest(@links::jsonb[]) AS links, unnest(@chunk_counts::integer[]) AS chunk_count,
    unnest(@statuses::text[]) AS status, unnest(@errors::text[]) AS error,
    unnest(@sessions::uuid[]) AS session, unnest(@first_nos::bigint[]) AS first_no) w
WHERE d.id = w.id;

-- name: DeleteChunks :exec
DELETE FROM chunks c
USING (SELECT unnest(@sessions::uuid[]) AS session, unnest(@first_nos::bigint[]) AS first_no,
    unnest(@ids::bigint[]) AS id) k
WHERE c.session = k.session AND c.first_no = k.first_no AND c.document_id = k.id;

-- name: CountStored :one
-- The last statement of a store, and its fence: whoever ends a run updates this row. No row = roll back.
UPDATE scheduler_runs
SET stored = stored + @stored, documents_processed = documents_processed + @processed,
    documents_failed = documents_failed + @failed, documents_deleted = documents_deleted + @deleted,
    chunks_stored = chunks_stored + @chunks, notes = notes + @notes
WHERE id = @session AND status = 'running'
RETURNING coalesce(stored = total, false)::boolean AS complete,
    EXISTS (SELECT 1 FROM run_checkpoints k WHERE k.session = @session) AS checkpointed;

-- name: IsStored :one
SELECT coalesce(stored = total, false)::boolean AS complete,
    EXISTS (SELECT 1 FROM run_checkpoints k WHERE k.session = @session) AS checkpointed
FROM scheduler_runs
WHERE id = @session AND status = 'running';

-- name: KeepCheckpoint :exec
INSERT INTO run_checkpoints (session, no, state) VALUES (@session, @no, @state);

-- name: Sight :exec
-- Sorted, like every lock of a store.
INSERT INTO sightings AS s (connector_id, session, listing, source_id, no)
SELECT @connector_id, @session, n.listing, n.source_id, min(n.no)
FROM (SELECT unnest(@listings::integer[]) AS listing, unnest(@source_ids::text[]) AS source_id,
    unnest(@nos::bigint[]) AS no) n
GROUP BY n.listing, n.source_id ORDER BY n.listing, n.source_id
ON CONFLICT (connector_id, session, listing, source_id) DO UPDATE SET no = least(s.no, EXCLUDED.no);

-- name: RecordCompleted :one
-- What sync completed says; said twice it changes nothing.
UPDATE scheduler_runs
SET total = coalesce(total, @total::bigint), new_state = coalesce(new_state, @new_state),
    listing_whole = @listing_whole, documents_unchanged = @unchanged, reason = coalesce(reason, @reason)
WHERE id = @session AND status = 'running'
RETURNING coalesce(stored = total, false)::boolean AS complete;

-- name: BeginTry :one
-- No row: the run is over, so that nothing is left behind that nobody sweeps.
INSERT INTO message_tries (session, no, tries)
SELECT r.id, @no, 1 FROM scheduler_runs r WHERE r.id = @session AND r.status = 'running'
ON CONFLICT (session, no) DO UPDATE SET tries = message_tries.tries + 1
RETURNING tries;

-- name: TakeBackTry :exec
-- The try ended in a wait for something of ours, which says nothing about the message.
UPDATE message_tries SET tries = tries - 1 WHERE session = @session AND no = @no AND tries > 0;
