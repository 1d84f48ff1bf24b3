package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestATokenIsShownOnceAndKeptAsAHash(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	made := u.object("tokens", "create", "--user", "7", "--role", "user", "--scopes", "operate,read", "--expires", "90d")
	require.Equal(t, []any{"read", "operate"}, made["scopes"])
	id, secret, err := identity.ParseToken(made["token"].(string))
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
	require.Equal(t, "true", u.row(`SELECT (secret_sha256 = $1 AND expires_at - created_at BETWEEN '89 days' AND '91 days')::text FROM access_tokens`, secret.Hash()))
	require.Equal(t, "7 user", u.row(`SELECT concat_ws(' ', user_id, role) FROM api.authenticate(1, $1)`, secret.Hash()))
	require.NotContains(t, u.succeed("tokens", "list"), string(secret))
	require.NotContains(t, u.row(`SELECT string_agg(a::text, ' ') FROM audit a`), string(secret))
	require.Regexp(t, `^ems_2_\w+\n$`, u.succeed("tokens", "create", "--user", "8"))
	require.Len(t, u.array("tokens", "list", "--user", "7"), 1)

	require.Equal(t, true, u.object("tokens", "revoke", "1")["revoked"])
	require.Equal(t, "token 1 is revoked already\n", u.succeed("tokens", "revoke", "1"))
	require.Equal(t, "0", u.row(`SELECT count(*)::text FROM api.authenticate(1, $1)`, secret.Hash()))
	require.Contains(t, u.run("tokens", "revoke", "9").stderr, "there is no token 9")
	require.Equal(t, "console tokens.create,console tokens.create,console tokens.update",
		u.row(`SELECT string_agg(source || ' ' || action, ',' ORDER BY id) FROM audit`))
}

func TestATokenIsRefusedThatIsMoreThanItsUser(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	require.Equal(t, "admin", u.array("users", "set", "7", "--role", "admin", "--member", "eng", "--lead", "docs")[0]["role"])
	out := u.run("tokens", "create", "--user", "7", "--role", "superadmin")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "`echomind users set 7 --role superadmin`")
	u.succeed("tokens", "create", "--user", "7", "--role", "admin")
	u.succeed("users", "set", "7", "--leave", "eng", "--role", "user")
	require.Equal(t, []any{"docs"}, u.array("users", "list")[0]["groups"])
	require.Equal(t, "user docs", u.row(`SELECT concat_ws(' ', a.role, array_to_string(a.groups, ',')) FROM access_tokens t, api.authenticate(t.id, t.secret_sha256) a`))
	for _, args := range [][]string{
		{"--user", "0"}, {"--user", "1", "--role", "root"}, {"--user", "1", "--scopes", "all"}, {"--user", "1", "--scopes", ""}, {"--user", "1", "--expires", "soon"}, {},
	} {
		require.Equal(t, 2, u.run(append([]string{"tokens", "create"}, args...)...).code, args)
	}
	require.Equal(t, 2, u.run("users", "set", "7").code)
	require.Equal(t, 2, u.run("users", "set", "7", "--member", "a b").code)
}

// Also a user without a role or groups.
func TestAUserWhoIsRemovedHasNoTokenThatCounts(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	for _, user := range []string{"7", "8", "9"} {
		u.succeed("tokens", "create", "--user", user, "--role", "admin")
	}
	u.succeed("users", "set", "7", "--role", "user", "--lead", "docs")
	require.EqualValues(t, 1, u.object("users", "remove", "7")["tokens_revoked"])
	require.Equal(t, "user 8 is removed; tokens revoked: 1\n", u.succeed("users", "remove", "8"))
	require.EqualValues(t, 0, u.object("users", "remove", "8")["tokens_revoked"])
	require.Empty(t, u.array("users", "list"))
	require.Equal(t, "9", u.row(`SELECT string_agg(a.user_id::text, ',') FROM access_tokens t, api.authenticate(t.id, t.secret_sha256) a`))
	for _, args := range [][]string{{}, {"0"}, {"x"}} {
		require.Equal(t, 2, u.run(append([]string{"users", "remove"}, args...)...).code, args)
	}
}

// A link says who somebody is whom an issuer signs in, and brings a removed user back; nothing else does.
func TestWhomAnIssuerSignsInIsLinked(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	is := func(want string) {
		t.Helper()
		require.Equal(t, want, u.row(`SELECT concat_ws(' ', s.user_id, s.refused) FROM api.sign_in('https://id.example', 'alice', NULL, NULL, 5, 'r') s`))
	}
	alice := []string{"--issuer", "https://id.example", "--subject", "alice"}
	require.Equal(t, "alice of https://id.example is user 7\n", u.succeed(append([]string{"users", "link", "7"}, alice...)...))
	is("7")
	u.succeed("users", "set", "7", "--role", "admin", "--lead", "docs")
	require.Equal(t, []any{1.0, 0.0}, []any{u.object("users", "remove", "7")["unlinked"], u.object("users", "remove", "7")["unlinked"]})
	is("unlinked")
	u.succeed("users", "set", "7", "--role", "user")
	is("unlinked")
	require.Equal(t, "removed", u.row(`SELECT s.refused FROM api.sign_in('https://id.example', 'bob', 7, NULL, 5, 'r') s`))
	u.succeed(append([]string{"users", "link", "7"}, alice...)...)
	is("7")
	require.Equal(t, "7", u.row(`SELECT s.user_id::text FROM api.sign_in('https://id.example', 'bob', 7, NULL, 5, 'r') s`))
	u.succeed(append([]string{"users", "link", "8"}, alice...)...)
	is("8")
	require.Len(t, u.array("users", "links", "--user", "8"), 1)
	require.Empty(t, u.array("users", "links", "--user", "7"))
	u.succeed(append([]string{"users", "unlink"}, alice...)...)
	is("unlinked")
	require.Contains(t, u.succeed("users", "links"), "alice")
	require.Equal(t, 1, u.run("users", "unlink", "--issuer", "https://id.example", "--subject", "nobody").code)
	for _, args := range [][]string{{"link", "7"}, {"link", "x", "--issuer", "a", "--subject", "b"}, {"link", "7", "--issuer", "a"}, {"unlink"}} {
		require.Equal(t, 2, u.run(append([]string{"users"}, args...)...).code, args)
	}
	require.Equal(t, "console identities.create,console identities.update,console removed_users.create,console removed_users.delete",
		u.row(`SELECT string_agg(a.did, ',' ORDER BY a.did) FROM (SELECT DISTINCT source || ' ' || action AS did FROM audit WHERE action LIKE 'identities.%' OR action LIKE 'removed_users.%') a`))
}

// A link of before is one that no trigger sees.
func TestALinkBringsAUserBackWhoWasRemovedThoughTheyAreLinked(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	link := []string{"users", "link", "7", "--issuer", "https://id.example", "--subject", "alice"}
	u.succeed(link...)
	u.row(`WITH barred AS (INSERT INTO removed_users VALUES (7) RETURNING 1) SELECT count(*)::text FROM barred`)
	u.succeed(link...)
	require.Equal(t, "7", u.row(`SELECT concat_ws(' ', s.user_id, s.refused) FROM api.sign_in('https://id.example', 'alice', NULL, NULL, 5, 'r') s`))
}

func TestTheCommandLineSaysThatTheLastSuperadminIsGone(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.succeed("tokens", "create", "--user", "1", "--role", "superadmin", "--scopes", "read,admin")
	for _, args := range [][]string{{"set", "7", "--role", "superadmin"}, {"set", "1", "--role", "admin"}} {
		require.NotContains(t, u.run(append([]string{"users"}, args...)...).stderr, "last superadmin")
	}
	gone := u.run("users", "remove", "7")
	require.Zero(t, gone.code)
	require.Contains(t, gone.stderr, "that was the last superadmin whom the database knows")
	require.NotContains(t, u.run("users", "set", "8", "--role", "admin").stderr, "last superadmin", "there was none before")
}

func TestAUserOfVeryManyGroupsIsRemovedInParts(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.row(`WITH made AS (INSERT INTO group_members SELECT 7, n::text, false FROM generate_series(1, 4500) n RETURNING 1) SELECT count(*)::text FROM made`)
	u.succeed("users", "remove", "7")
	require.Equal(t, "0 3", u.row(`SELECT (SELECT count(*) FROM group_members) || ' ' || count(DISTINCT xmin::text) FROM audit WHERE action = 'groups.delete'`))
}

func TestTheAuditNamesThePersonAtTheCommandLine(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).as(consoleRole)
	u.add()
	u.succeed("connectors", "update", "1", "--name", "papers")
	u.succeed("connectors", "disable", "1")
	require.Equal(t, "connectors.create,connectors.update,connectors.disable", u.row(`SELECT string_agg(action, ',' ORDER BY id) FROM audit WHERE source = 'console'`))
	require.Equal(t, "true", u.row(`SELECT bool_and(a.person = c.created_by AND a.login = session_user)::text FROM audit a, connectors c`))
}
