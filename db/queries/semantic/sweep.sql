-- name: TakeUnswept :many
-- Takes a batch of what is to be swept for a while, so that nobody else is at it. What is taken and not swept comes again.
UPDATE unswept_runs u SET next_at = clock_timestamp() + @held::interval
WHERE u.run_id IN (
    SELECT o.run_id FROM unswept_runs o WHERE o.next_at <= (SELECT clock_timestamp())
    ORDER BY o.next_at LIMIT @batch::integer FOR UPDATE SKIP LOCKED)
RETURNING run_id, connector_id, try_id, config_version, outdated, outdated_after, attempts;

-- name: PostponeSweep :exec
-- One that cannot be swept now, or that is not through, lets the others pass.
UPDATE unswept_runs SET attempts = @attempts, next_at = clock_timestamp() + @pause::interval WHERE run_id = @run_id;

-- name: CountUnswept :one
-- Up to a limit, so that a long queue is not read at every look.
SELECT count(*) FROM (SELECT FROM unswept_runs LIMIT @most::integer) u;

-- name: SweepMessages :execrows
DELETE FROM run_messages m
WHERE m.try_id = @try_id AND m.no IN (SELECT o.no FROM run_messages o WHERE o.try_id = @try_id ORDER BY o.no LIMIT @batch::integer);

-- name: SweepCheckpoints :exec
DELETE FROM run_checkpoints WHERE try_id = @try_id;

-- name: SweepSightings :execrows
-- A batch of those of tries that are over, and that no checkpoint speaks of (see sdk/worker/listing.go).
DELETE FROM sightings s
WHERE (s.connector_id, s.try_id, s.listing, s.source_id) IN (
    SELECT o.connector_id, o.try_id, o.listing, o.source_id FROM sightings o
    WHERE o.connector_id = @connector_id
        AND NOT EXISTS (SELECT 1 FROM open_runs r WHERE r.connector_id = o.connector_id AND r.try_id = o.try_id)
        AND NOT EXISTS (
            SELECT 1 FROM connectors c
            WHERE c.id = o.connector_id AND c.listing->'seen' ? o.try_id::text)
    LIMIT @batch::integer);

-- name: SweepTries :exec
DELETE FROM message_tries WHERE try_id = @try_id;

-- name: SweepOrphanChunks :execrows
-- A batch of the chunks of an ended run that no document names: parts of a document that never became whole, or chunks that a
-- later message of the same try replaced.
DELETE FROM chunks c
WHERE (c.try_id, c.first_no, c.document_id, c.no) IN (
    SELECT o.try_id, o.first_no, o.document_id, o.no FROM chunks o
    WHERE o.try_id = @try_id AND NOT EXISTS (
        SELECT 1 FROM documents d
        WHERE d.id = o.document_id AND d.try_id = o.try_id AND d.first_no = o.first_no)
    LIMIT @batch::integer);

-- name: SweepLeftovers :one
SELECT moves.sweep_leftovers(@connector_id::integer, @batch::integer)::integer;

-- name: SweepOutdated :one
-- Where the page ends; empty after the last.
SELECT coalesce(moves.sweep_outdated(@connector_id::integer, @config_version::bigint, @behind::text, @page::integer), '')::text;

-- name: KeepSweepPlace :exec
UPDATE unswept_runs SET outdated_after = @behind WHERE run_id = @run_id;

-- name: Swept :exec
DELETE FROM unswept_runs WHERE run_id = @run_id;

-- name: DeletedConnectors :many
SELECT id, config_version, swept_after FROM deleted_connectors
WHERE (id, config_version) > (@after_id::integer, @after_version::bigint)
ORDER BY id, config_version LIMIT @page::integer;

-- name: KeepDeletedPlace :exec
UPDATE deleted_connectors SET swept_after = @behind WHERE id = @id AND config_version = @config_version;

-- name: ForgetDeletedConnector :exec
DELETE FROM deleted_connectors WHERE id = @id AND config_version = @config_version;

-- name: KeepLedger :one
SELECT k.dropped::integer AS dropped, k.removed::integer AS removed FROM moves.keep_ledger(@retention::interval) k;

-- name: ForgetWorkers :one
SELECT moves.forget_workers(@batch::integer)::integer;

-- name: HoldsLeftovers :one
-- Whether something is left that somebody held while it was swept.
SELECT EXISTS (SELECT FROM documents d WHERE d.connector_id = @connector_id AND d.status IN ('deleted', 'partial')
    AND NOT EXISTS (SELECT FROM open_runs r WHERE r.connector_id = d.connector_id AND r.try_id = d.touched_by))::boolean;
