//go:build !race

package api_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

func TestAUsersRoleAndGroupsAreSetByTheirVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	none := super.do("GET", "/users/7", nil)
	require.Equal(t, 200, none.status, "a user need not be made")
	require.Nil(t, none.body["role"])
	change := map[string]any{"role": "admin", "member": []string{"eng", "ops"}, "lead": []string{"docs", "ops"}}
	super.refused(428, "precondition-required", super.do("PATCH", "/users/7", change))
	super.refused(412, "precondition-failed", super.do("PATCH", "/users/7", change, "If-Match", `"1"`))
	first := none.header.Get("ETag")
	r := super.do("PATCH", "/users/7", change, "If-Match", first, "X-Request-Id", "r-1", "Audit-Note", "the new team")
	require.Equal(t, 200, r.status, r.text)
	require.Equal(t, []any{"admin", []any{"docs", "eng", "ops"}, []any{"docs", "ops"}}, []any{r.body["role"], r.body["groups"], r.body["leads"]})
	require.Equal(t, r.body, super.get("/users/7"))
	require.Equal(t, 4, one[int](w, `SELECT count(*) FROM audit WHERE source = 'api' AND user_id = 1 AND request_id = 'r-1' AND note = 'the new team' AND action ~ '^(users|groups)'`))
	super.refused(412, "precondition-failed", super.do("PATCH", "/users/7", map[string]any{"role": "user"}, "If-Match", first))

	for _, wrong := range []map[string]any{{}, {"role": "boss"}, {"member": []string{"a/b"}}, {"leave": []string{""}}, {"name": "x"}, {"lead": make([]string, 1001)}} {
		super.refused(422, "invalid", super.do("PATCH", "/users/7", wrong, "If-Match", "*"))
	}
	super.refused(422, "invalid", super.do("PATCH", "/users/0", change, "If-Match", "*"))
	require.Equal(t, r.header.Get("ETag"), super.do("GET", "/users/7", nil).header.Get("ETag"))
}

func TestARemovedUsersTokensEndAndNoIssuerSignsThemInUntilTheyAreLinkedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super, they := w.as(1, identity.Superadmin), w.as(7, identity.Superadmin)
	require.Equal(t, 200, super.do("PATCH", "/users/7", map[string]any{"role": "admin"}, "If-Match", "*").status)
	who := map[string]any{"issuer": "https://id.example", "subject": "x", "user_id": 7}
	for range 2 { // to send it again does nothing more
		require.Equal(t, 200, super.do("POST", "/users/links", who).status)
	}
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM audit WHERE action ~ '^identities'`))
	they.refused(403, "forbidden", they.do("PATCH", "/users/7", map[string]any{"role": "superadmin"}, "If-Match", "*"))
	super.refused(428, "precondition-required", super.do("DELETE", "/users/7", nil))
	super.refused(412, "precondition-failed", super.do("DELETE", "/users/7", nil, "If-Match", `"1"`))
	r := super.do("DELETE", "/users/7", nil, "If-Match", "*")
	require.Equal(t, "200 1 1", fmt.Sprint(r.status, r.body["tokens_revoked"], r.body["unlinked"]), r.text)
	require.Equal(t, 401, they.do("GET", "/me", nil).status)
	require.True(t, one[bool](w, `SELECT EXISTS (SELECT FROM removed_users WHERE user_id = 7) AND (SELECT user_id IS NULL FROM identities) AND NOT EXISTS (SELECT FROM users)`))
	require.Equal(t, 200, super.do("POST", "/users/links", who).status)
	require.False(t, one[bool](w, `SELECT EXISTS (SELECT FROM removed_users WHERE user_id = 7) OR (SELECT user_id IS NULL FROM identities)`))

	delete(who, "user_id")
	gone := super.do("POST", "/users/links/remove", who)
	require.Equal(t, "200 <nil>", fmt.Sprint(gone.status, gone.body["user_id"]), gone.text)
	who["subject"] = "nobody"
	super.refused(404, "not-found", super.do("POST", "/users/links/remove", who))
	who["subject"] = "a\x00"
	super.refused(422, "invalid", super.do("POST", "/users/links/remove", who))
}

func TestSuperadminsWithTheScopeAdminAloneWriteUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []caller{w.as(7, identity.User), w.as(7, identity.Admin), w.as(1, identity.Superadmin, identity.Read, identity.Operate, identity.Write), w.as(1, identity.User, identity.Administer)} {
		c.refused(403, "forbidden", c.do("PATCH", "/users/7", map[string]any{"role": "superadmin"}, "If-Match", "*"))
		c.refused(403, "forbidden", c.do("DELETE", "/users/8", nil, "If-Match", "*"))
		c.refused(403, "forbidden", c.do("POST", "/users/links", map[string]any{"issuer": "i", "subject": "s", "user_id": 7}))
		c.refused(403, "forbidden", c.do("POST", "/users/links/remove", map[string]any{"issuer": "i", "subject": "s"}))
	}
	require.Zero(t, one[int](w, `SELECT (SELECT count(*) FROM users) + (SELECT count(*) FROM identities) + (SELECT count(*) FROM removed_users)`))
}

func TestALinkThatIsMadeWhileItsUserIsRemovedLeavesThemRemovedOrLinked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	who := map[string]any{"issuer": "https://id.example", "subject": "x", "user_id": 7}
	conn, err := pgx.Connect(t.Context(), w.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	linking, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = linking.Exec(t.Context(), `SELECT set_config('echomind.request', '{"user_id": 1, "role": "superadmin"}', true), api.link_identity('https://id.example', 'x', 7)`)
	require.NoError(t, err)
	removing := super.do("DELETE", "/users/7", nil, "If-Match", "*")
	require.NoError(t, linking.Commit(t.Context()))
	if removing.status == 409 { // it has waited for the link
		require.Equal(t, 200, super.do("DELETE", "/users/7", nil, "If-Match", "*").status)
	}
	require.False(t, one[bool](w, `SELECT EXISTS (SELECT FROM removed_users r JOIN identities i USING (user_id))`))

	w.exec(`INSERT INTO removed_users VALUES (7) ON CONFLICT DO NOTHING`)
	w.exec(`UPDATE identities SET user_id = 7`)
	w.exec(`INSERT INTO removed_users VALUES (7) ON CONFLICT DO NOTHING`) // by the command line of a release before, or by plain SQL
	require.Equal(t, 200, super.do("POST", "/users/links", who).status)
	require.Empty(t, one[string](w, `SELECT coalesce(s.refused, '') FROM api.sign_in('https://id.example', 'x', NULL, NULL, 0, 'r') s`), "who was linked anew is removed no more")
}

func TestAUserIsPutIntoNoMoreGroupsThanCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	w.exec(`INSERT INTO group_members SELECT 7, 'g' || lpad(n::text, 4, '0'), false FROM generate_series(1, 1000) n`)
	super.refused(422, "invalid", super.do("PATCH", "/users/7", map[string]any{"member": []string{"z"}}, "If-Match", "*"))
	r := super.do("PATCH", "/users/7", map[string]any{"lead": []string{"z"}, "leave": []string{"g0001"}}, "If-Match", "*")
	require.Equal(t, 200, r.status, r.text)
	require.Equal(t, []any{"z"}, r.body["leads"], "who is put into a group is shown in it, and counts as in it")
}

func TestAUserOfVeryManyGroupsIsRemovedInPartsAndARepeatGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super, they := w.as(1, identity.Superadmin), w.as(7, identity.User)
	w.exec(`INSERT INTO group_members SELECT 7, lpad(n::text, 5, '0'), false FROM generate_series(1, 5000) n`)
	w.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'here it stops'; END $$`)
	w.exec(`CREATE TRIGGER refuse BEFORE DELETE ON group_members FOR EACH ROW WHEN (OLD.group_id = '03000') EXECUTE FUNCTION refuse()`)
	r := super.do("DELETE", "/users/7", nil, "If-Match", "*")
	require.Equal(t, 200, r.status, r.text)
	require.Equal(t, []any{1.0, true}, []any{r.body["tokens_revoked"], r.body["groups_left"]})
	require.Equal(t, 401, they.do("GET", "/me", nil).status)
	require.Equal(t, 3000, one[int](w, `SELECT count(*) FROM group_members`), "what is done is done")
	w.exec(`DROP TRIGGER refuse ON group_members`)
	for left := any(true); left == true; left = r.body["groups_left"] { // one request, but on a slow machine
		r = super.do("DELETE", "/users/7", nil, "If-Match", r.header.Get("ETag"))
		require.Equal(t, 200, r.status, r.text)
	}
	require.Zero(t, one[int](w, `SELECT count(*) FROM group_members`))
}

func TestTheLastSuperadminStaysOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last := w.as(1, identity.Superadmin)
	w.as(2, identity.Superadmin, identity.Read) // may not write users
	w.as(3, identity.Admin)
	w.exec(`INSERT INTO users VALUES (4, 'superadmin')`) // nobody signs in here, and they have no token
	for range 2 {
		r := last.do("PATCH", "/users/1", map[string]any{"role": "admin"}, "If-Match", "*")
		last.refused(409, "conflict", r)
		require.Contains(t, r.text, "the last superadmin")
		last.refused(409, "conflict", last.do("DELETE", "/users/1", nil, "If-Match", "*"))
	}
	require.Equal(t, "superadmin", last.get("/me")["role"])
	other := w.as(5, identity.Superadmin)
	require.Equal(t, 200, last.do("PATCH", "/users/1", map[string]any{"role": "admin"}, "If-Match", "*").status)
	other.refused(409, "conflict", other.do("DELETE", "/users/5", nil, "If-Match", "*"))
}

func TestASuperadminMayGoWhereOthersSignIn(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*api.Config){
		"by a role that is written down": func(*api.Config) {},
		"by what a proxy says":           func(c *api.Config) { c.SignIn.RolesHeader, c.SignIn.Superadmins = "X-Roles", []string{"roots"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := proxied(t, func(c *api.Config) {
				c.SignIn.RolesHeader, c.SignIn.Superadmins, c.SignIn.Scopes = "", nil, []string{"read", "admin"}
				set(c)
			})
			last := w.as(1, identity.Superadmin)
			removes := func() int { return last.do("DELETE", "/users/1", nil, "If-Match", "*").status }
			if name == "by a role that is written down" {
				require.Equal(t, 409, removes())
				w.exec(`INSERT INTO users VALUES (4, 'superadmin')`)
			}
			require.Equal(t, 200, removes())
		})
	}
}

func TestOfTwoSuperadminsWhoRemoveEachOtherOneStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.as(1, identity.Superadmin), w.as(2, identity.Superadmin)
	answers := make(chan reply, 2)
	go func() { answers <- first.do("DELETE", "/users/2", nil, "If-Match", "*") }()
	go func() { answers <- second.do("DELETE", "/users/1", nil, "If-Match", "*") }()
	<-answers
	<-answers
	require.Positive(t, one[int](w, `SELECT count(*) FROM access_tokens WHERE revoked_at IS NULL`))
}
