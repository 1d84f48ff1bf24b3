-- name: AddCondition :one
INSERT INTO conditions (name, query, user_ids, timeout_ms, created_by, updated_by)
VALUES (@name, @query, sqlc.narg('user_ids')::integer[], @timeout_ms, @by, @by) RETURNING *;

-- name: GetCondition :one
SELECT * FROM conditions WHERE name = @name;

-- name: LockCondition :one
SELECT * FROM conditions WHERE name = @name FOR UPDATE;

-- name: ListConditions :many
-- Each with how many connectors name it, not counted beyond 10,000.
SELECT c.*, (SELECT count(*) FROM (SELECT FROM connectors k WHERE k.condition = c.name LIMIT 10000) n) AS connectors FROM conditions c ORDER BY c.name LIMIT @page::integer;

-- name: UpdateCondition :one
UPDATE conditions SET query = @query, user_ids = sqlc.narg('user_ids')::integer[], timeout_ms = @timeout_ms, updated_by = @by, updated_at = clock_timestamp()
WHERE name = @name RETURNING *;

-- name: RemoveCondition :execrows
DELETE FROM conditions WHERE name = @name;

-- name: UnmetSlots :one
-- What a condition has passed over of a connector since something else became of one of its slots.
SELECT * FROM unmet_slots WHERE connector_id = @connector_id;
