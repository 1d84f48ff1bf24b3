-- name: EventsWaiting :one
-- How many events wait to be published at most, and since when.
SELECT w.events::bigint AS events, w.since FROM moves.events_waiting() w;

-- name: DroppedEvents :one
-- How many events were ever dropped.
SELECT d.status::bigint AS status, d.verdicts::bigint AS verdicts FROM moves.dropped_events() d;
