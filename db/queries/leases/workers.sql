-- name: ExpiredWorkers :many
-- A page of the worker processes whose lease has run out.
SELECT id, beats FROM workers WHERE expires_at < (SELECT clock_timestamp()) ORDER BY expires_at LIMIT @page::integer;
