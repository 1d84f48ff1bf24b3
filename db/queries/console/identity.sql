-- name: CreateToken :one
-- A user whose role is written down has none that is more; no row then.
INSERT INTO access_tokens (user_id, name, role, scopes, secret_sha256, created_by, expires_at)
SELECT @user_id, @name, @role, @scopes::text[], @secret_sha256, @created_by, sqlc.narg('expires_at')
RETURNING id, created_at;

-- name: CreateLink :exec
INSERT INTO sign_in_links (code_sha256, token_id, expires_at) VALUES (@code_sha256, @token_id, clock_timestamp() + make_interval(mins => @minutes::integer));

-- name: RoleOf :one
SELECT role FROM users WHERE user_id = @user_id;

-- name: ListTokens :many
-- A token is over with each that it was made through.
SELECT t.id, t.user_id, t.name, t.role, t.scopes, t.created_at, t.created_by, t.expires_at, t.revoked_at, t.last_used_at, m.revoked_at AS through_revoked_at
FROM access_tokens t LEFT JOIN LATERAL (SELECT a.revoked_at FROM access_tokens a WHERE a.id = ANY (t.made_through) AND a.revoked_at IS NOT NULL ORDER BY a.revoked_at LIMIT 1) m ON true
WHERE t.id > @after AND (sqlc.narg('user_id')::integer IS NULL OR t.user_id = sqlc.narg('user_id'))
ORDER BY t.id LIMIT @page::integer;

-- name: RevokeToken :execrows
UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE id = @id AND revoked_at IS NULL;

-- name: HasToken :one
SELECT EXISTS (SELECT FROM access_tokens WHERE id = @id);

-- name: SetUser :exec
INSERT INTO users AS u (user_id, role) VALUES (@user_id, @role) ON CONFLICT (user_id) DO UPDATE SET role = EXCLUDED.role WHERE u.role <> EXCLUDED.role;

-- name: SetMember :exec
INSERT INTO group_members AS m (user_id, group_id, leads) VALUES (@user_id, @group_id, @leads)
ON CONFLICT (user_id, group_id) DO UPDATE SET leads = EXCLUDED.leads WHERE m.leads <> EXCLUDED.leads;

-- name: LeaveGroup :exec
DELETE FROM group_members WHERE user_id = @user_id AND group_id = @group_id;

-- name: RevokeTokensOf :execrows
UPDATE access_tokens SET revoked_at = clock_timestamp()
WHERE user_id = @user_id AND revoked_at IS NULL AND coalesce(expires_at, 'infinity') > (SELECT clock_timestamp());

-- name: LockUser :exec
-- As the API does: who links the user at the same time waits, and takes the removal back.
SELECT pg_advisory_xact_lock(hashtext('api.user'), @user_id::integer);

-- name: LeaveGroups :execrows
-- Of a user who is removed still.
DELETE FROM group_members m WHERE m.user_id = @user_id AND EXISTS (SELECT FROM removed_users r WHERE r.user_id = @user_id)
    AND m.group_id <= (SELECT max(n.group_id) FROM (SELECT o.group_id FROM group_members o WHERE o.user_id = @user_id ORDER BY o.group_id LIMIT @most::integer) n);

-- name: HasSuperadmin :one
-- Where people sign in, and else by a token.
SELECT moves.has_superadmin(true)::boolean AS has;

-- name: RemoveUser :exec
DELETE FROM users WHERE user_id = @user_id;

-- name: BarUser :exec
-- No issuer brings them back. Where something was said of them, a trigger has done so.
INSERT INTO removed_users (user_id) VALUES (@user_id) ON CONFLICT DO NOTHING;

-- name: UnlinkUser :execrows
UPDATE identities SET user_id = NULL WHERE user_id = @user_id::integer;

-- name: LinkIdentity :exec
SELECT moves.link_identity(@issuer::text, @subject::text, @user_id::integer);

-- name: UnlinkIdentity :execrows
-- The row stays, so that no sign-in makes it a user.
UPDATE identities SET user_id = NULL WHERE issuer = @issuer AND subject = @subject;

-- name: ListIdentities :many
SELECT i.issuer, i.subject, i.user_id, i.made_at FROM identities i
WHERE (i.issuer, i.subject) > (@after_issuer::text, @after_subject::text) AND (sqlc.narg('user_id')::integer IS NULL OR i.user_id = sqlc.narg('user_id'))
ORDER BY i.issuer, i.subject LIMIT @page::integer;

-- name: ListUsers :many
-- The users that something is written down about.
SELECT k.user_id::integer AS user_id, u.role,
    ARRAY(SELECT m.group_id FROM group_members m WHERE m.user_id = k.user_id ORDER BY m.group_id LIMIT 1000)::text[] AS groups,
    ARRAY(SELECT m.group_id FROM group_members m WHERE m.user_id = k.user_id AND m.leads ORDER BY m.group_id LIMIT 1000)::text[] AS leads
FROM (SELECT user_id FROM users UNION SELECT user_id FROM group_members) k LEFT JOIN users u ON u.user_id = k.user_id
WHERE k.user_id > @after::integer AND (sqlc.narg('user_id')::integer IS NULL OR k.user_id = sqlc.narg('user_id'))
ORDER BY k.user_id LIMIT @page::integer;
