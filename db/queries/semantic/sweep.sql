-- name: TakeUnswept :many
-- Takes a batch of what is to be swept for a while, so that nobody else is at it. What is taken and not swept comes again. `behind` is
-- where the batch before has ended: what was taken and is not yet vacuumed is not read again.
WITH taken AS MATERIALIZED (
    SELECT o.run_id, o.next_at FROM unswept_runs o WHERE o.next_at >= @behind::timestamptz AND o.next_at <= (SELECT clock_timestamp())
    ORDER BY o.next_at LIMIT @batch::integer FOR UPDATE SKIP LOCKED)
UPDATE unswept_runs u SET next_at = clock_timestamp() + @held::interval
FROM taken t WHERE u.run_id = t.run_id
RETURNING u.run_id, u.connector_id, u.try_id, u.config_version, u.outdated, u.place, u.attempts, t.next_at AS was_at;

-- name: PostponeSweep :exec
-- One that cannot be swept now, or that is not through, lets the others pass.
UPDATE unswept_runs SET attempts = @attempts, place = @place, next_at = clock_timestamp() + @pause::interval WHERE run_id = @run_id;

-- name: CountUnswept :one
-- Up to a limit, so that a long queue is not read at every look.
SELECT count(*) FROM (SELECT FROM unswept_runs LIMIT @most::integer) u;

-- name: SweepMessages :many
-- A batch behind a place, so that what is removed and not yet vacuumed is not read again; up to a number, so that no plan reads
-- all of the try's.
DELETE FROM run_messages m
WHERE m.try_id = @try_id AND m.no > @behind AND m.no <= (SELECT max(l.no) FROM (
    SELECT o.no FROM run_messages o WHERE o.try_id = @try_id AND o.no > @behind ORDER BY o.no LIMIT @batch::integer) l)
RETURNING m.no;

-- name: SweepCheckpoints :many
DELETE FROM run_checkpoints k
WHERE k.try_id = @try_id AND k.no > @behind AND k.no <= (SELECT max(l.no) FROM (
    SELECT o.no FROM run_checkpoints o WHERE o.try_id = @try_id AND o.no > @behind ORDER BY o.no LIMIT @batch::integer) l)
RETURNING k.no;

-- name: SweepTries :many
DELETE FROM message_tries m
WHERE m.try_id = @try_id AND m.no > @behind AND m.no <= (SELECT max(l.no) FROM (
    SELECT o.no FROM message_tries o WHERE o.try_id = @try_id AND o.no > @behind ORDER BY o.no LIMIT @batch::integer) l)
RETURNING m.no;

-- name: SightedListings :many
-- A page of the listings whose sightings a connector's tries have left, one step of the index for each, and whether they may go:
-- the try is over, and no checkpoint speaks of it (see sdk/worker/listing.go), nor will one again.
WITH RECURSIVE listings AS (
    (SELECT s.try_id, s.listing, 1 AS n FROM sightings s
        WHERE s.connector_id = @connector_id::integer AND (s.try_id, s.listing) > (@behind_try::uuid, @behind::integer)
        ORDER BY s.try_id, s.listing LIMIT 1)
    UNION ALL
    SELECT l.try_id, l.listing, t.n + 1 FROM listings t CROSS JOIN LATERAL (
        SELECT s.try_id, s.listing FROM sightings s
        WHERE s.connector_id = @connector_id::integer AND (s.try_id, s.listing) > (t.try_id, t.listing)
        ORDER BY s.try_id, s.listing LIMIT 1) l
    WHERE t.n < @page::integer),
-- Read once: it may be long.
spoken AS MATERIALIZED (SELECT c.listing->'seen' AS seen FROM connectors c WHERE c.id = @connector_id::integer)
SELECT t.try_id, t.listing, (NOT coalesce((SELECT p.seen ? t.try_id::text FROM spoken p), false)
    AND NOT EXISTS (SELECT FROM open_runs r WHERE r.connector_id = @connector_id::integer AND r.try_id = t.try_id))::boolean AS is_over
FROM listings t ORDER BY t.n;

-- name: SweepSightings :one
-- A batch of one listing's behind a place, and where it ends.
WITH last AS (
    SELECT b.source_id FROM (
        SELECT o.source_id FROM sightings o
        WHERE o.connector_id = @connector_id AND o.try_id = @try_id AND o.listing = @listing AND o.source_id > @behind::text
        ORDER BY o.source_id LIMIT @batch::integer) b
    ORDER BY b.source_id DESC LIMIT 1),
gone AS (
    DELETE FROM sightings s
    WHERE s.connector_id = @connector_id AND s.try_id = @try_id AND s.listing = @listing
        AND s.source_id > @behind::text AND s.source_id <= (SELECT l.source_id FROM last l)
    RETURNING 1)
SELECT (SELECT count(*) FROM gone) AS removed, coalesce((SELECT l.source_id FROM last l), '')::text AS source_id;

-- name: SweepOrphanChunks :many
-- Looks at a page of the keys under which an ended run has left chunks, one step of the index for each whatever number of chunks
-- it has. Those that no document names are left to sweep_chunks: parts of a document that never became whole, or chunks that a
-- later message of the same try replaced. Returns where the page ends.
WITH RECURSIVE keys AS (
    (SELECT c.first_no, c.document_id, 1 AS n FROM chunks c
        WHERE c.try_id = @try_id::uuid AND (c.first_no, c.document_id) > (@behind_no::bigint, @behind_id::bigint)
        ORDER BY c.first_no, c.document_id LIMIT 1)
    UNION ALL
    SELECT l.first_no, l.document_id, k.n + 1 FROM keys k CROSS JOIN LATERAL (
        SELECT c.first_no, c.document_id FROM chunks c
        WHERE c.try_id = @try_id::uuid AND (c.first_no, c.document_id) > (k.first_no, k.document_id)
        ORDER BY c.first_no, c.document_id LIMIT 1) l
    WHERE k.n < @page::integer),
orphans AS (
    INSERT INTO unnamed_chunks (try_id, first_no, document_id)
    SELECT @try_id::uuid, k.first_no, k.document_id FROM keys k WHERE NOT EXISTS (
        SELECT FROM documents d WHERE d.id = k.document_id AND d.try_id = @try_id::uuid AND d.first_no = k.first_no))
SELECT k.first_no, k.document_id, k.n FROM keys k ORDER BY k.n DESC LIMIT 1;

-- name: SweepLeftovers :one
-- Where the page ends, 0 after the last, and whether somebody holds one of it.
SELECT coalesce(l.next, 0)::bigint AS next, l.held::boolean AS held
FROM moves.sweep_leftovers(@connector_id::integer, @behind::bigint, @page::integer) l;

-- name: SweepOutdated :one
-- Where the page ends; empty after the last.
SELECT coalesce(moves.sweep_outdated(@connector_id::integer, @config_version::bigint, @behind::text, @page::integer), '')::text;

-- name: SweepChunks :one
-- The last key that was looked at, 0 where there is none.
SELECT coalesce(c.next, 0)::bigint AS next, c.removed::integer AS removed
FROM moves.sweep_chunks(@behind::bigint, @page::integer, @batch::integer) c;

-- name: PassUnnamedChunks :one
-- Where a page of keys ends that cannot be swept now; 0 where there is none.
SELECT coalesce(max(u.id), 0)::bigint FROM (
    SELECT q.id FROM unnamed_chunks q WHERE q.id > @behind ORDER BY q.id LIMIT @page::integer) u;

-- name: KeepSweepPlace :exec
UPDATE unswept_runs SET place = @place WHERE run_id = @run_id;

-- name: Swept :exec
DELETE FROM unswept_runs WHERE run_id = @run_id;

-- name: DeletedConnectors :many
SELECT id, config_version, place, attempts FROM deleted_connectors
WHERE (id, config_version) > (@after_id::integer, @after_version::bigint) AND next_at <= clock_timestamp()
ORDER BY id, config_version LIMIT @page::integer;

-- name: KeepDeletedPlace :exec
UPDATE deleted_connectors SET place = @place WHERE id = @id AND config_version = @config_version;

-- name: PostponeDeletedConnector :exec
-- One that cannot be swept now lets the others pass.
UPDATE deleted_connectors SET attempts = @attempts, place = @place, next_at = clock_timestamp() + @pause::interval WHERE id = @id AND config_version = @config_version;

-- name: ForgetDeletedConnector :exec
DELETE FROM deleted_connectors WHERE id = @id AND config_version = @config_version;

-- name: KeepAudit :one
SELECT k.removed::integer AS removed FROM moves.keep_audit(@retention::interval, @batch::integer) k(removed);

-- name: KeepLedger :one
SELECT k.dropped::integer AS dropped, k.removed::integer AS removed FROM moves.keep_ledger(@retention::interval) k;

-- name: ForgetWorkers :one
SELECT f.forgotten::integer AS workers, f.locks::integer AS locks FROM moves.forget_workers(@batch::integer) f;

-- name: CountDeletedConnectors :one
-- Up to a limit.
SELECT count(*) FROM (SELECT FROM deleted_connectors LIMIT @most::integer) d;

-- name: OldestDeletion :one
-- Seconds since the deletion of the connector that waits longest for its documents to be removed; 0: none waits.
SELECT coalesce(extract(epoch FROM clock_timestamp() - (SELECT min(deleted_at) FROM deleted_connectors)), 0)::double precision;

-- name: AddSystemJob :one
SELECT moves.add_system_job(@type::text, @name::text, @minutes::integer)::boolean;

-- name: HurryOrphanSweep :exec
SELECT moves.hurry_orphan_sweep();

-- name: ExpiredLeases :many
-- Runs whose workers are silent, those first that are for longest; in_all is not counted beyond 10,000.
SELECT count(*) OVER ()::bigint AS in_all, l.id, l.connector_id, l.type, l.expires_at FROM (
    SELECT r.id, r.connector_id, r.type, w.expires_at FROM workers w JOIN open_runs r ON r.worker_id = w.id
    WHERE w.expires_at < (SELECT clock_timestamp()) LIMIT 10000) l
ORDER BY l.expires_at, l.id LIMIT @most::integer;
