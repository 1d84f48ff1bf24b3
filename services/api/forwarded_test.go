//go:build !race

package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// proxied is an API behind a proxy, which the test is.
func proxied(t *testing.T, change ...func(*api.Config)) *world {
	t.Helper()
	return newWorld(t, append([]func(*api.Config){func(c *api.Config) {
		c.SignIn.Networks, c.SignIn.UserHeader, c.SignIn.GroupsHeader, c.SignIn.RolesHeader, c.SignIn.Separator = []string{"192.0.2.0/24", "127.0.0.0/8", "::1/128"}, "X-Authentik-Uid", "X-Authentik-Groups", "X-Authentik-Groups", "|"
		c.SignIn.Superadmins, c.SignIn.Groups, c.SignIn.Leads = []string{"roots"}, []string{"Engineers=eng"}, []string{"Leads=eng"}
		c.SignIn.Scopes = []string{"read", "write"}
	}}, change...)...)
}

func TestAProxysHeadersSayWhoSomebodyIs(t *testing.T) {
	t.Parallel()
	w := proxied(t)
	w.link(7, "header:x-authentik-uid", "alice")
	nobody := caller{world: w}
	r := nobody.do("GET", "/me", nil, "X-Authentik-Uid", "alice", "X-Authentik-Groups", "Engineers | Leads|roots")
	require.Equal(t, 200, r.status, r.text)
	require.Equal(t, []any{7.0, nil, "header:x-authentik-uid", "alice", "superadmin"}, []any{r.body["user_id"], r.body["token_id"], r.body["issuer"], r.body["subject"], r.body["role"]})
	require.Equal(t, []any{[]any{"eng"}, []any{"eng"}, []any{"read", "write"}}, []any{r.body["groups"], r.body["leads"], r.body["scopes"]})
	r = nobody.do("GET", "/me", nil, "X-Authentik-Uid", "alice", "Authorization", "Basic eDp5")
	require.Equal(t, []any{"user", []any{}}, []any{r.body["role"], r.body["groups"]})

	made := nobody.do("POST", "/connectors", map[string]any{"name": "x", "type": "web", "config": map[string]any{"url": "https://a.example/"}}, "X-Authentik-Uid", "alice")
	require.Equal(t, "user 7", made.body["updated_by"], made.text)
	require.Equal(t, "user 7 header:x-authentik-uid alice", one[string](w, `SELECT concat_ws(' ', person, issuer, subject) FROM audit WHERE action = 'connectors.create'`))
	// Another site's page has a browser send what the proxy knows it by.
	for _, site := range []string{"cross-site", "same-site"} {
		nobody.refused(403, "forbidden", nobody.do("POST", "/connectors/1/sync", nil, "X-Authentik-Uid", "alice", "Sec-Fetch-Site", site))
	}
	nobody.refused(403, "forbidden", nobody.do("POST", "/connectors/1/sync", nil, "X-Authentik-Uid", "alice", "Origin", "https://other.example"))
	require.Equal(t, 403, nobody.do("GET", "/me", nil, "X-Authentik-Uid", "bob").status)

	me := w.as(8, identity.User)
	require.EqualValues(t, 8, me.get("/me")["user_id"])
	for _, headers := range [][]string{
		{"X-Authentik-Uid", ""}, {"X-Authentik-Groups", "roots"}, {"X-Authentik-Uid", "a\tb"}, {"X-Authentik-Uid", "a\xff"},
	} {
		nobody.refused(401, "unauthenticated", nobody.do("GET", "/me", nil, headers...))
	}
	me.refused(401, "unauthenticated", me.do("GET", "/me", nil, "X-Authentik-Uid", "alice")) // which of them?
}

func TestHeadersFromElsewhereAreRefusedAndNotIgnored(t *testing.T) {
	t.Parallel()
	w := proxied(t, func(c *api.Config) { c.SignIn.Networks = []string{"192.0.2.0/24", "2001:db8::/32"} })
	w.link(7, "header:x-authentik-uid", "alice")
	me := w.as(7, identity.User)
	me.get("/me")
	for _, name := range []string{"X-Authentik-Uid", "X-Authentik-Groups"} {
		for _, c := range []caller{me, {world: w}} {
			r := c.do("GET", "/me", nil, name, "alice", "X-Forwarded-For", "192.0.2.1", "X-Real-IP", "192.0.2.1", "Forwarded", "for=192.0.2.1")
			c.refused(401, "unauthenticated", r)
			require.Contains(t, r.body["detail"], "not believed")
		}
	}
	// Where no proxy is believed they are nothing.
	off := proxied(t, func(c *api.Config) { c.SignIn.Networks = nil })
	require.Equal(t, 401, caller{world: off}.do("GET", "/me", nil, "X-Authentik-Uid", "alice").status)
	require.EqualValues(t, 7, off.as(7, identity.User).do("GET", "/me", nil, "X-Authentik-Uid", "alice").body["user_id"])
}
