-- name: LetterRuns :many
-- Which runs the sessions of dead letters are.
SELECT id, connector_id, (parameters IS NOT NULL)::boolean AS has_parameters FROM api.runs WHERE id = ANY(@sessions::uuid[]);

-- name: LetterDocument :one
-- What has become of the document of a dead letter since.
SELECT status, error, updated_at FROM api.documents WHERE connector_id = @connector_id AND source_id = @source_id;

-- name: ReplayLetter :one
-- No row where there is no such connector.
SELECT t.at::timestamptz AS at FROM api.replay_letter(@letter::bigint, @subject::text, @connector_id::integer, @source_ids::text[]) t(at) WHERE t.at IS NOT NULL;

-- name: NoteDrop :exec
SELECT api.drop_letter(@letter::bigint, @subject::text, @connector_id::integer, @source_ids::text[]);

-- name: ReplayLetters :one
-- Of up to 100 letters of one connector. asked_before is what an earlier portion of the same request returned. No row where there is no such connector.
SELECT t.at::timestamptz AS at FROM api.replay_letters(@letters::bigint[], @subjects::text[], @source_ids::text[], @connector_id::integer, sqlc.narg(asked_before)::timestamptz) t(at) WHERE t.at IS NOT NULL;

-- name: LockLetters :one
-- Whether nobody else replays or drops many letters until the transaction ends.
SELECT pg_try_advisory_xact_lock(hashtext('echomind.deadletters'))::boolean AS mine;

-- name: NoteDrops :exec
SELECT api.drop_letters(@letters::bigint[], @subjects::text[], @source_ids::text[], @connector_id::integer);
