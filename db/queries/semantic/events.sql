-- name: TakeTurnToPublish :one
-- 0: it is somebody else's turn.
SELECT coalesce(moves.take_turn_to_publish(@publisher::uuid, @lease::interval), 0)::bigint AS newest;

-- name: UnpublishedEvents :many
SELECT e.no::bigint AS no, e.at::timestamptz AS at, e.connector_id, coalesce(e.type, '')::text AS type, coalesce(e.was, '')::text AS was, coalesce(e.status, '')::text AS status,
    coalesce(e.due_reason, '')::text AS due_reason, e.run_id, coalesce(e.verdict, '')::text AS verdict, coalesce(e.trigger, '')::text AS trigger,
    coalesce(e.reason, '')::text AS reason, e.slot, e.slot_last, coalesce(e.slots, 0)::integer AS slots, e.due_at, e.started_at,
    coalesce(e.documents_processed, 0)::bigint AS documents_processed, coalesce(e.documents_failed, 0)::bigint AS documents_failed,
    coalesce(e.documents_deleted, 0)::bigint AS documents_deleted, coalesce(e.documents_unchanged, 0)::bigint AS documents_unchanged,
    coalesce(e.chunks_stored, 0)::bigint AS chunks_stored, e.is_verdict::boolean AS is_verdict
FROM moves.unpublished_events(@page::integer, @after::bigint, @until::bigint) e;

-- name: RemoveEvents :one
SELECT r.status::bigint AS status, r.verdicts::bigint AS verdicts FROM moves.remove_events(@nos::bigint[]) r;

-- name: NoteEmptyEvents :one
SELECT moves.note_empty_events()::bigint AS below;

-- name: ClearEvents :one
SELECT moves.clear_events()::integer AS cleared;

-- name: EventsWaiting :one
SELECT w.events::bigint AS events, coalesce(extract(epoch FROM clock_timestamp() - w.since), 0)::double precision AS age
FROM moves.events_waiting() w;

-- name: DroppedEvents :one
SELECT d.status::bigint AS status, d.verdicts::bigint AS verdicts FROM moves.dropped_events() d;
