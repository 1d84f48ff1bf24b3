-- name: RunOfTry :one
-- What the run says of itself: never the message. No row: the run is over, or another try's. complete and checkpointed say how
-- far it has come already.
SELECT r.connector_id, r.user_id, r.config_version, r.total, r.whole, EXISTS (SELECT 1 FROM run_checkpoints k WHERE k.try_id = r.try_id) AS checkpointed
FROM open_runs r
WHERE r.id = @run_id AND r.try_id = @try_id::uuid;

-- name: OwnerHasRoom :one
SELECT r.documents, r.bytes, r.max_documents, r.max_bytes FROM moves.owner_has_room(@owner::integer) r;

-- name: CountMessages :many
-- The numbers that were not counted yet; those are the ones to store.
INSERT INTO run_messages (try_id, no, first_no, given_up, waits_for, fails, chunks, text_bytes)
SELECT @try_id, m.no, nullif(m.first_no, 0), nullif(m.given_up, ''),
    CASE WHEN m.given_up = '' THEN nullif(m.claim, '00000000-0000-0000-0000-000000000000') END,
    CASE WHEN m.given_up <> '' THEN nullif(m.claim, '00000000-0000-0000-0000-000000000000') END, nullif(m.chunks, 0),
    nullif(m.text_bytes, 0)
FROM (SELECT unnest(@nos::bigint[]) AS no, unnest(@first_nos::bigint[]) AS first_no, unnest(@given_ups::text[]) AS given_up,
    unnest(@claims::uuid[]) AS claim, unnest(@chunks::integer[]) AS chunks,
    unnest(@text_bytes::bigint[]) AS text_bytes) m
ORDER BY m.no
ON CONFLICT DO NOTHING
RETURNING no;

-- name: LockDocuments :many
-- Locks the rows, sorted by source_id, creating those that are new. A new one is of the run's configuration, and each is
-- touched by the try, so that no sweep takes it away between two parts.
INSERT INTO documents (connector_id, source_id, config_version, touched_by)
SELECT @connector_id, s.source_id, @config_version, @try_id::uuid
FROM (SELECT unnest(@source_ids::text[]) AS source_id) s ORDER BY s.source_id
ON CONFLICT (connector_id, source_id) DO UPDATE SET touched_by = EXCLUDED.touched_by, updated_at = clock_timestamp()
RETURNING id, source_id, content_hash, chunk_count, text_bytes,
    octet_length(title)::bigint AS title_bytes, octet_length(url)::bigint AS url_bytes, octet_length(array_to_string(links, ''))::bigint AS links_bytes,
    status, try_id,
    first_no, written_by, written_no, config_version;

-- name: CountParts :many
-- Of documents of several parts: how many are there that agree with this one, how many chunks these brought, whether one that
-- agrees was given up, and which chunks are there. Asked after the documents are locked: of two workers with the two parts of one document the second sees the
-- first one's part. The parts of a document have neighbouring numbers.
SELECT d.place::bigint AS place, m.parts::bigint AS parts, m.brought::bigint AS brought, m.text_bytes::bigint AS text_bytes, m.has_failed::boolean AS has_failed, c.chunks::bigint AS chunks,
    c.first_chunk::integer AS first_chunk, c.last_chunk::integer AS last_chunk
FROM ROWS FROM (unnest(@first_nos::bigint[]), unnest(@parts::bigint[]), unnest(@claims::uuid[]), unnest(@ids::bigint[]))
    WITH ORDINALITY AS d(first_no, parts, claim, id, place)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE r.waits_for = d.claim) AS parts,
        coalesce(sum(r.chunks) FILTER (WHERE r.waits_for = d.claim), 0) AS brought,
        coalesce(sum(r.text_bytes) FILTER (WHERE r.waits_for = d.claim), 0) AS text_bytes, coalesce(bool_or(r.fails = d.claim), false) AS has_failed
    FROM run_messages r
    WHERE r.try_id = @try_id AND r.no >= d.first_no AND r.no < d.first_no + d.parts AND r.first_no = d.first_no) m
CROSS JOIN LATERAL (
    SELECT count(*) AS chunks, coalesce(min(k.no), 2147483647) AS first_chunk, coalesce(max(k.no), -1) AS last_chunk
    FROM chunks k
    WHERE k.try_id = @try_id AND k.first_no = d.first_no AND k.document_id = d.id) c;

-- name: PartsWaitNoLonger :execrows
-- Their document is whole, or known to have failed.
UPDATE run_messages m SET waits_for = NULL
FROM (SELECT unnest(@first_nos::bigint[]) AS first_no, unnest(@parts::bigint[]) AS parts, unnest(@claims::uuid[]) AS claim) d
WHERE m.try_id = @try_id AND m.no >= d.first_no AND m.no < d.first_no + d.parts AND m.first_no = d.first_no
    AND m.waits_for = d.claim;

-- name: WriteDocuments :exec
-- What is not said (an empty title or URL, links or a memo that are null, a media type where it failed) stays, unless it is of an earlier
-- configuration: its owner may have been another; nothing stays of what is deleted. Links are JSON: an array of arrays has equally long ones.
-- Chunks beyond a document's own are of a part that said its number and something else: they go.
WITH w AS (SELECT * FROM ROWS FROM (unnest(@ids::bigint[]), unnest(@written_nos::bigint[]), unnest(@titles::text[]), unnest(@urls::text[]),
        unnest(@media_types::text[]), unnest(@hashes::text[]), unnest(@tokens::text[]), unnest(@links::jsonb[]), unnest(@memos::bytea[]),
        unnest(@chunks::integer[]), unnest(@text_bytes::bigint[]), unnest(@statuses::text[]), unnest(@errors::text[]),
        unnest(@try_ids::uuid[]), unnest(@first_nos::bigint[]))
    AS n(id, written_no, title, url, media_type, hash, token, links, memo, chunks, text_bytes, status, error, try_id, first_no)),
beyond AS (DELETE FROM chunks c USING w
    WHERE w.try_id = @written_by::uuid AND c.try_id = w.try_id AND c.first_no = w.first_no AND c.document_id = w.id AND c.no >= w.chunks)
UPDATE documents d
SET title = coalesce(nullif(w.title, ''), CASE WHEN w.status <> 'deleted' AND d.config_version = @config_version::bigint THEN d.title END, ''),
    url = coalesce(nullif(w.url, ''), CASE WHEN w.status <> 'deleted' AND d.config_version = @config_version::bigint THEN d.url END, ''),
    media_type = coalesce(nullif(w.media_type, ''), CASE WHEN w.status = 'failed' AND d.config_version = @config_version::bigint THEN d.media_type END, ''),
    content_hash = w.hash, version_token = w.token, chunk_count = w.chunks, text_bytes = w.text_bytes, status = w.status,
    error = nullif(w.error, ''), written_by = @written_by::uuid, written_no = w.written_no,
    try_id = nullif(w.try_id, '00000000-0000-0000-0000-000000000000'), first_no = nullif(w.first_no, 0),
    config_version = @config_version::bigint, updated_at = clock_timestamp(),
    links = CASE WHEN w.links IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(nullif(w.links, 'null')))
        WHEN w.status <> 'deleted' AND d.config_version = @config_version::bigint THEN d.links ELSE '{}' END,
    memo = CASE WHEN w.memo IS NOT NULL THEN nullif(convert_from(w.memo, 'UTF8'), '')::json
        WHEN w.status <> 'deleted' AND d.config_version = @config_version::bigint THEN d.memo END,
    deleted_at = CASE WHEN w.status = 'deleted' THEN clock_timestamp() END
FROM w
WHERE d.id = w.id;

-- name: DeleteChunks :exec
DELETE FROM chunks c
USING (SELECT unnest(@try_ids::uuid[]) AS try_id, unnest(@first_nos::bigint[]) AS first_no,
    unnest(@ids::bigint[]) AS id) k
WHERE c.try_id = k.try_id AND c.first_no = k.first_no AND c.document_id = k.id;

-- name: CountStored :one
-- The last statement of a store, and its fence: the end of a run takes this row away. No row, because the run is over or because
-- it has no number as high as these: roll back.
UPDATE open_runs
SET stored = stored + @stored, whole = coalesce(stored + @stored = total, false), notes = notes + @notes,
    waiting = waiting + @waiting, unnamed = unnamed + @unnamed, documents_processed = documents_processed + @processed,
    documents_failed = documents_failed + @failed, documents_deleted = documents_deleted + @deleted,
    chunks_stored = chunks_stored + @chunks
WHERE id = @run_id AND try_id = @try_id::uuid AND (total IS NULL OR total >= @highest::bigint)
RETURNING whole, EXISTS (SELECT 1 FROM run_checkpoints k WHERE k.try_id = open_runs.try_id) AS checkpointed;

-- name: KeepCheckpoint :exec
INSERT INTO run_checkpoints (try_id, run_id, no, state, listing) VALUES (@try_id, @run_id, @no, @state, sqlc.narg('listing')::jsonb);

-- name: Sight :exec
-- Sorted, like every lock of a store.
INSERT INTO sightings AS s (connector_id, try_id, listing, source_id, no)
SELECT @connector_id, @try_id, n.listing, n.source_id, min(n.no)
FROM (SELECT unnest(@listings::integer[]) AS listing, unnest(@source_ids::text[]) AS source_id,
    unnest(@nos::bigint[]) AS no) n
GROUP BY n.listing, n.source_id ORDER BY n.listing, n.source_id
ON CONFLICT (connector_id, try_id, listing, source_id) DO UPDATE SET no = least(s.no, EXCLUDED.no);

-- name: LockRun :one
-- No store of the try is under way while it is held.
SELECT connector_id, config_version, total, whole, stored FROM open_runs WHERE id = @run_id AND try_id = @try_id::uuid FOR UPDATE;

-- name: HighestNumber :one
SELECT coalesce(max(no), 0)::bigint FROM run_messages WHERE try_id = @try_id;

-- name: RecordCompleted :one
-- What sync completed says, of a run that is locked.
UPDATE open_runs
SET total = @total::bigint, whole = (stored = @total::bigint), new_state = @new_state, listing_whole = @listing_whole,
    documents_unchanged = @unchanged, reason = @reason
WHERE id = @run_id AND try_id = @try_id::uuid
RETURNING whole;

-- name: BeginTry :one
-- Repeated with the same mark it counts once. No row: the run is over, or another try's, so that nothing is left behind that nobody
-- sweeps.
INSERT INTO message_tries (try_id, no, tries, mark)
SELECT r.try_id, @no, 1, @mark::uuid FROM open_runs r WHERE r.id = @run_id AND r.try_id = @try_id::uuid
ON CONFLICT (try_id, no) DO UPDATE SET mark = EXCLUDED.mark,
    tries = message_tries.tries + (message_tries.mark IS DISTINCT FROM EXCLUDED.mark)::integer,
    taken_back = message_tries.taken_back AND message_tries.mark = EXCLUDED.mark
RETURNING tries;

-- name: WriteNothing :exec
-- A small write of a try's own, which changes nothing and is committed like any other: Postgres that answers this in time is there.
-- No row where the run is over, which is an answer too.
INSERT INTO message_tries (try_id, no, tries)
SELECT r.try_id, @no, 0 FROM open_runs r WHERE r.id = @run_id AND r.try_id = @try_id::uuid
ON CONFLICT (try_id, no) DO UPDATE SET tries = message_tries.tries;

-- name: TakeBackTry :exec
-- The try ended in a wait for something of ours, which says nothing about the message. Repeated it takes back one.
UPDATE message_tries SET tries = tries - 1, taken_back = true
WHERE try_id = @try_id AND no = @no AND mark = @mark::uuid AND NOT taken_back;
