-- name: ChangeableMatching :many
-- Those of a filter that the viewer may change, within a range of numbers.
SELECT id FROM api.changeable
WHERE id > @after AND id <= @through
    AND (sqlc.narg('type')::text IS NULL OR type = sqlc.narg('type'))
    AND (sqlc.narg('name')::text IS NULL OR strpos(lower(name), lower(sqlc.narg('name'))) > 0)
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
    AND (sqlc.narg('user_id')::integer IS NULL OR user_id = sqlc.narg('user_id'))
    AND (sqlc.narg('scope')::text IS NULL OR scope = sqlc.narg('scope'))
    AND (sqlc.narg('scope_id')::text IS NULL OR scope_id = sqlc.narg('scope_id'))
    AND (NOT @late::boolean OR coalesce(last_sync_at, created_at) + make_interval(mins => fresh_within_minutes) < clock_timestamp())
ORDER BY id
LIMIT @page::integer;

-- name: CountUnchangeable :one
-- How many of a filter the viewer sees and may not change, within a range of numbers, counted up to a bound.
SELECT count(*)::integer AS n FROM (SELECT FROM api.connectors
    WHERE id > @after AND id <= @through AND NOT may_change
        AND (sqlc.narg('type')::text IS NULL OR type = sqlc.narg('type'))
        AND (sqlc.narg('name')::text IS NULL OR strpos(lower(name), lower(sqlc.narg('name'))) > 0)
        AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
        AND (sqlc.narg('user_id')::integer IS NULL OR user_id = sqlc.narg('user_id'))
        AND (sqlc.narg('scope')::text IS NULL OR scope = sqlc.narg('scope'))
        AND (sqlc.narg('scope_id')::text IS NULL OR scope_id = sqlc.narg('scope_id'))
        AND (NOT @late::boolean OR coalesce(last_sync_at, created_at) + make_interval(mins => fresh_within_minutes) < clock_timestamp())
    LIMIT @most::integer) c;

-- name: LockMatching :many
-- Locks those of a batch that match and that the viewer may change, but for those that somebody else holds.
SELECT id FROM api.changeable
WHERE id = ANY(@ids::integer[])
    AND (sqlc.narg('type')::text IS NULL OR type = sqlc.narg('type'))
    AND (sqlc.narg('name')::text IS NULL OR strpos(lower(name), lower(sqlc.narg('name'))) > 0)
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
    AND (sqlc.narg('user_id')::integer IS NULL OR user_id = sqlc.narg('user_id'))
    AND (sqlc.narg('scope')::text IS NULL OR scope = sqlc.narg('scope'))
    AND (sqlc.narg('scope_id')::text IS NULL OR scope_id = sqlc.narg('scope_id'))
    AND (NOT @late::boolean OR coalesce(last_sync_at, created_at) + make_interval(mins => fresh_within_minutes) < clock_timestamp())
ORDER BY id
FOR UPDATE SKIP LOCKED;

-- name: StandingOf :many
-- What a viewer sees of a batch: whether they may change each, and whether it matches.
SELECT id, may_change,
    coalesce((sqlc.narg('type')::text IS NULL OR type = sqlc.narg('type'))
    AND (sqlc.narg('name')::text IS NULL OR strpos(lower(name), lower(sqlc.narg('name'))) > 0)
    AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
    AND (sqlc.narg('user_id')::integer IS NULL OR user_id = sqlc.narg('user_id'))
    AND (sqlc.narg('scope')::text IS NULL OR scope = sqlc.narg('scope'))
    AND (sqlc.narg('scope_id')::text IS NULL OR scope_id = sqlc.narg('scope_id'))
    AND (NOT @late::boolean OR coalesce(last_sync_at, created_at) + make_interval(mins => fresh_within_minutes) < clock_timestamp()), false)::boolean AS matches
FROM api.connectors WHERE id = ANY(@ids::integer[]);

-- name: CreateOperation :one
SELECT api.create_operation(@action::text, @filter::jsonb, @ids::integer[], @left_out::integer, @groups::text[], @leads::text[], @size::integer)::integer AS id;

-- name: ListOperations :many
SELECT id, action, filter, user_id, state, error, matched, left_out, changed, unchanged, skipped, failed, unbegun::integer AS unbegun, created_at, began_at, ended_at
FROM api.operations WHERE id < @before ORDER BY id DESC LIMIT @page::integer;

-- name: GetOperation :one
SELECT id, action, filter, user_id, state, error, matched, left_out, changed, unchanged, skipped, failed, unbegun::integer AS unbegun, created_at, began_at, ended_at
FROM api.operations WHERE id = @id;

-- name: ListResults :many
SELECT connector_id, result, reason, at FROM api.operation_results
WHERE operation_id = @operation_id AND connector_id > @after AND (sqlc.narg('result')::text IS NULL OR result = sqlc.narg('result'))
ORDER BY connector_id LIMIT @page::integer;

-- name: CancelOperation :one
-- No row: there is none that the viewer sees.
SELECT c.cancelled::boolean AS cancelled FROM (SELECT api.cancel_operation(@id::integer) AS cancelled) c WHERE c.cancelled IS NOT NULL;

-- name: PutOffOperations :exec
SELECT api.put_off_operations();

-- name: TakeBatch :one
-- No row: there is nothing to do now.
SELECT b.operation::integer AS operation, b.batch::integer AS batch, b.action::text AS action, b.filter::jsonb AS filter, b.connectors::integer[] AS connectors, b.tries::integer AS tries,
    b.user_id::integer AS user_id, coalesce(b.token_id, 0)::integer AS token_id, coalesce(b.issuer, '')::text AS issuer, coalesce(b.subject, '')::text AS subject, b.role::text AS role,
    b.groups::text[] AS groups, b.leads::text[] AS leads, coalesce(b.note, '')::text AS note
FROM api.take_batch() b;

-- name: NoteBatch :exec
SELECT api.note_batch(@operation::integer, @batch::integer, @changed::integer, @unchanged::integer, @ids::integer[], @results::text[], @reasons::text[], @rest::integer[],
    @again::integer[], @triggered::integer[], @pause::interval);

-- name: PutOffBatch :exec
SELECT api.put_off_batch(@operation::integer, @batch::integer, @most::integer);

-- name: ForgetOperation :one
SELECT api.forget_operation(@retention::interval)::boolean AS forgotten;

-- name: CreateLettersOperation :one
SELECT api.create_letters_operation(@action::text, @filter::jsonb, @place::text, @letters::integer, @groups::text[], @leads::text[])::integer AS id;

-- name: TakeLetters :one
-- No row: there is nothing to do now.
SELECT l.operation::integer AS operation, l.turn::integer AS turn, l.action::text AS action, l.filter::jsonb AS filter, l.place::text AS place,
    l.user_id::integer AS user_id, coalesce(l.token_id, 0)::integer AS token_id, coalesce(l.issuer, '')::text AS issuer, coalesce(l.subject, '')::text AS subject, l.role::text AS role,
    l.groups::text[] AS groups, l.leads::text[] AS leads, coalesce(l.note, '')::text AS note
FROM api.take_letters(@lease::interval) l;

-- name: NoteLetters :one
SELECT api.note_letters(@operation::integer, @turn::integer, sqlc.narg(next_place)::text, @done::integer, @others::integer, @stay::integer, @connectors::integer[], @reasons::text[],
    @pause::interval, sqlc.narg(fails)::text)::boolean AS noted;
