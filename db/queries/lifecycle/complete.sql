-- name: Complete :many
SELECT c.connector_id::integer AS connector_id, c.type::text AS type, c.verdict::text AS verdict
FROM moves.complete(@run_id::uuid) c;

-- name: CompleteAll :many
SELECT c.place::integer AS place, c.connector_id::integer AS connector_id, c.type::text AS type, coalesce(c.verdict, '')::text AS verdict
FROM moves.complete_all(@run_ids::uuid[]) c;

-- name: WholeRuns :many
-- A page of the open runs whose documents are all stored: a process died between the last store and the completion.
SELECT id FROM open_runs WHERE whole AND id > @after::uuid ORDER BY id LIMIT @page::integer;
