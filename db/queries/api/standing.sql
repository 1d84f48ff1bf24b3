-- name: Services :many
-- since and last_active are the epoch where the schema's owner may not see them.
SELECT s.name::text AS name, s.connections::bigint AS connections, coalesce(s.since, 'epoch')::timestamptz AS since, coalesce(s.last_active, 'epoch')::timestamptz AS last_active
FROM api.services() s;

-- name: ConnectorCounts :many
SELECT c.type::text AS type, c.status::text AS status, c.connectors::bigint AS connectors, c.is_estimate::boolean AS is_estimate FROM api.count_connectors() c ORDER BY c.type, c.status;

-- name: SystemJobs :many
SELECT * FROM api.system_jobs ORDER BY type LIMIT 100;

-- name: KeysWaited :many
SELECT * FROM api.keys_waited ORDER BY oldest;

-- name: EventsWaiting :one
-- How many events wait to be published at most, and since when.
SELECT w.events::bigint AS events, w.since FROM moves.events_waiting() w;

-- name: DroppedEvents :one
SELECT d.status::bigint AS status, d.verdicts::bigint AS verdicts FROM moves.dropped_events() d;
