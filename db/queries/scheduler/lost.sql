-- name: PendingTypes :many
-- The types that have a connector whose message has been on its way for longer than the grace.
SELECT DISTINCT type FROM connectors
WHERE chunking_session IS NOT NULL AND status = 'PENDING'
    AND dispatched_at < (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())) - @grace::interval;

-- name: Redispatch :many
-- Takes over the connectors whose message is not in the stream any more. oldest is the dispatch of the
-- oldest queued message, null where none is queued. The guard on dispatched_at is implied: the row is
-- locked, and a second scheduler that waited for it sees the new dispatched_at.
WITH lost AS (
    SELECT c.id AS lost_id, r.trigger AS reason
    FROM connectors c
    JOIN scheduler_runs r ON r.id = c.chunking_session
    WHERE c.type = @type AND c.chunking_session IS NOT NULL AND c.status = 'PENDING'
        AND c.dispatched_at + least(power(2, least(c.dispatches - 1, 10)) * @grace::interval, @max_grace::interval)
            < (SELECT coalesce(sqlc.narg('oldest')::timestamptz, sqlc.narg('now')::timestamptz, clock_timestamp()))
        AND c.dispatched_at
            < (SELECT coalesce(sqlc.narg('oldest')::timestamptz, sqlc.narg('now')::timestamptz, clock_timestamp())
                - @grace::interval)
    ORDER BY c.dispatched_at
    LIMIT @batch::integer
    FOR UPDATE OF c SKIP LOCKED)
UPDATE connectors c
SET dispatched_at = (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())), dispatches = c.dispatches + 1
FROM lost
WHERE c.id = lost.lost_id AND c.status = 'PENDING'
RETURNING c.id, c.user_id, c.scope, c.scope_id, c.config, c.state, c.config_version,
    c.chunking_session, c.dispatched_at, c.dispatches, lost.reason;
