-- name: BeginConsent :one
-- Null: it is for no connector that somebody may change; 0: as many of theirs wait as may.
SELECT b.id::integer AS id FROM (SELECT api.begin_consent(@connector_id::integer, @state::bytea, @sealed::text, @most::integer) AS id) b WHERE b.id IS NOT NULL;

-- name: ConsentOf :one
SELECT o.sealed::text AS sealed FROM (SELECT api.consent_of(@state::bytea) AS sealed) o WHERE o.sealed IS NOT NULL;

-- name: EndConsent :exec
-- Without why: it is connected.
SELECT api.end_consent(@state::bytea, sqlc.narg('why')::text);

-- name: GetConsent :one
SELECT c.id::integer AS id, c.connector_id::integer AS connector_id, c.until::timestamptz AS until, c.ended_at, c.problem, c.state::text AS state FROM api.consents c WHERE c.id = @id;
