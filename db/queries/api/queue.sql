-- name: Waiting :many
-- A page of what waits, as the function says; the last row says as far as where it has looked, if there may be more.
SELECT w.connector_id::integer AS connector_id, w.since::timestamptz AS since, w.is_end::boolean AS is_end
FROM api.waiting(@after::timestamptz, @after_id::integer, @page::integer, @look::integer) w;
