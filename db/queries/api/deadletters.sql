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
-- Of up to 1,000 letters of one connector. No row where there is no such connector.
SELECT t.at::timestamptz AS at FROM api.replay_letters(@letters::bigint[], @subjects::text[], @source_ids::text[], @connector_id::integer) t(at) WHERE t.at IS NOT NULL;

-- name: NoteDrops :exec
SELECT api.drop_letters(@letters::bigint[], @subjects::text[], @source_ids::text[], @connector_id::integer);
