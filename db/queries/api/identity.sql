-- name: Authenticate :one
SELECT a.token_id::integer AS token_id, a.user_id::integer AS user_id, a.role::text AS role, a.scopes::text[] AS scopes, a.groups::text[] AS groups, a.leads::text[] AS leads,
    coalesce(a.session_of, 0)::integer AS session_of
FROM api.authenticate(@id::integer, @sha256::bytea) a;

-- name: SignIn :one
SELECT coalesce(a.user_id, 0)::integer AS user_id, coalesce(a.role, '')::text AS role, coalesce(a.groups, '{}')::text[] AS groups, coalesce(a.leads, '{}')::text[] AS leads,
    coalesce(a.refused, '')::text AS refused
FROM api.sign_in(@issuer::text, @subject::text, sqlc.narg('named')::integer, sqlc.narg('role')::text, @most_new::integer, @request_id::text) a;

-- name: PageKey :one
SELECT api.page_key()::bytea AS key;

-- name: ListTokens :many
SELECT * FROM api.tokens
WHERE id > @after AND (sqlc.narg('user_id')::integer IS NULL OR user_id = sqlc.narg('user_id'))
ORDER BY id LIMIT @page::integer;

-- name: GetToken :one
SELECT * FROM api.tokens WHERE id = @id;

-- name: CreateToken :one
SELECT api.create_token(@user_id::integer, @name::text, @role::text, @scopes::text[], @sha256::bytea, sqlc.narg('expires_at')::timestamptz)::integer AS id;

-- name: OpenLink :one
-- No row: there is none that counts.
SELECT o.id::integer AS id FROM (SELECT api.open_link(@link::bytea, @session::bytea, @request::text) AS id) o WHERE o.id IS NOT NULL;

-- name: EndSession :exec
SELECT api.end_session();

-- name: RevokeToken :one
-- Null: there is none that somebody sees.
SELECT r.revoked FROM (SELECT api.revoke_token(@id::integer) AS revoked) r WHERE r.revoked IS NOT NULL;

-- name: ListAudit :many
SELECT * FROM api.audit
WHERE id < @before AND id > @since AND (sqlc.narg('connector_id')::integer IS NULL OR connector_id = sqlc.narg('connector_id'))
ORDER BY id DESC LIMIT @page::integer;

-- name: AuditBack :one
-- Null: there are not so many.
SELECT b.id::bigint AS id FROM (SELECT api.audit_back(@connector_id::integer, @before::bigint, @back::integer) AS id) b WHERE b.id IS NOT NULL;

-- name: ListTypes :many
-- Its version is the transaction that wrote it last.
SELECT sqlc.embed(t), t.xmin::text AS version FROM connector_types t ORDER BY t.name LIMIT @page::integer;

-- name: TypeOf :one
SELECT sqlc.embed(t), t.xmin::text AS version FROM connector_types t WHERE t.name = @name;

-- name: BeginRequest :one
SELECT b.again::boolean AS again, coalesce(b.done, '')::text AS done FROM api.begin_request(@key::text, @asked::bytea) b;

-- name: EndRequest :exec
SELECT api.end_request(@key::text, @done::text);

-- name: ListUsers :many
-- role is empty where nobody has said what it is.
SELECT u.user_id::integer AS user_id, coalesce(u.role, '')::text AS role, u.groups::text[] AS groups, u.leads::text[] AS leads FROM api.users_behind(@after::integer, @page::integer) u;

-- name: ListIdentities :many
SELECT * FROM api.identities
WHERE (issuer, subject) > (@after_issuer::text, @after_subject::text) AND (sqlc.narg('user_id')::integer IS NULL OR user_id = sqlc.narg('user_id'))
ORDER BY issuer, subject LIMIT @page::integer;

-- name: LockUser :exec
SELECT api.lock_user(@user_id::integer);

-- name: SetUser :exec
SELECT api.set_user(@user_id::integer, sqlc.narg('role')::text, @member::text[], @lead::text[], @leave::text[]);

-- name: RemoveUserPart :one
SELECT r.tokens_revoked::bigint AS tokens_revoked, r.unlinked::bigint AS unlinked, r.more::boolean AS more FROM api.remove_user_part(@user_id::integer, @most::integer, @goes_on::boolean) r;

-- name: HasSuperadmin :one
SELECT moves.has_superadmin(@signs_in::boolean)::boolean AS has;

-- name: LinkIdentity :one
-- Without a user: nobody any more. False: the subject is not known.
SELECT api.link_identity(@issuer::text, @subject::text, sqlc.narg('user_id')::integer)::boolean AS known;
