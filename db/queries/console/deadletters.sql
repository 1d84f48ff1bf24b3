-- name: LetterRuns :many
-- Which runs the sessions of dead letters are.
SELECT id, connector_id, (parameters IS NOT NULL)::boolean AS has_parameters FROM scheduler_runs WHERE id = ANY(@sessions::uuid[]);

-- name: ForgetTokens :execrows
-- Without its token a document is fetched again, by a source that sends only changes too. One that is deleted has none.
UPDATE documents SET version_token = ''
WHERE connector_id = @connector_id AND source_id = ANY(@source_ids::text[]) AND status IN ('stored', 'failed');

-- name: NoteLetters :exec
-- Into the audit: deadletters.replay or deadletters.drop.
SELECT moves.note_letters(@action::text, @letters::bigint[], @subjects::text[], @source_ids::text[], @connector_id::integer);
