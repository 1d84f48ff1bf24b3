//go:build !race

package api_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api"
)

func TestAProgramIsWhomItsIssuersTokenIsLinkedTo(t *testing.T) {
	t.Parallel()
	w, p := believing(t)
	w.link(7, p.server.URL, "alice")
	w.exec(`INSERT INTO users VALUES (7, 'admin')`)
	w.exec(`INSERT INTO group_members VALUES (7, 'g', true), (7, 'h', false)`)
	me := caller{w, p.gives("alice", map[string]any{"roles": []string{"root"}})}
	who := me.get("/me")
	require.EqualValues(t, 7, who["user_id"])
	require.Nil(t, who["token_id"])
	require.Equal(t, []any{p.server.URL, "alice", "admin"}, []any{who["issuer"], who["subject"], who["role"]})
	require.Equal(t, []any{"g", "h"}, who["groups"])
	require.Equal(t, []any{"g"}, who["leads"])
	require.Equal(t, []any{"read", "operate", "write", "admin"}, who["scopes"])

	made := me.do("POST", "/connectors", map[string]any{"name": "x", "type": "web", "config": map[string]any{"url": "https://a.example/"}}, "Audit-Note", "why")
	require.Equal(t, 201, made.status, made.text)
	require.Equal(t, []any{"user 7", "user 7"}, []any{made.body["created_by"], made.body["updated_by"]})
	entry := me.get(fmt.Sprintf("/audit?connector_id=%v", made.body["id"]))["entries"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"api", "user 7", nil, p.server.URL, "alice", "why"},
		[]any{entry["source"], entry["person"], entry["token_id"], entry["issuer"], entry["subject"], entry["note"]})

	// Tokens of ours go on to count beside.
	require.EqualValues(t, 8, w.as(8, identity.User).get("/me")["user_id"])
	w.exec(`UPDATE users SET role = 'user'`)
	require.Equal(t, "user", me.get("/me")["role"])
}

// Each kind of token that does not count.
func TestATokenThatTheIssuerDidNotGiveUsDoesNotCount(t *testing.T) {
	t.Parallel()
	w, p := believing(t, func(c *api.Config) { c.SignIn.Clients = []string{"cli"} })
	w.link(7, p.server.URL, "alice")
	now := time.Now()
	good := p.usual(map[string]any{"azp": "cli"})
	(caller{w, p.signs(good, nil)}).get("/me")
	with := func(name string, value any) map[string]any { return p.usual(map[string]any{"azp": "cli", name: value}) }
	for why, claims := range map[string][]map[string]any{
		"expired":        {with("exp", now.Add(-time.Minute).Unix()), with("exp", 0)},
		"not count yet":  {with("nbf", now.Add(time.Minute).Unix()), with("iat", now.Add(time.Minute).Unix())},
		"a client that":  {with("azp", "page"), with("azp", nil), with("client_id", "page"), with("azp", 7)},
		"another issuer": {with("iss", "https://issuer.example"), with("iss", p.server.URL+"/")},
		"not for this":   {with("aud", "https://others.example"), with("aud", []string{}), with("aud", audience+"/"), with("aud", nil)},
		"when it counts": {with("exp", nil)},
		"who it is":      {with("sub", nil), with("sub", ""), with("sub", strings.Repeat("x", 256)), with("sub", "a\nb")},
		"a kind that":    {with("events", map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}})},
		"cannot be read": {with("aud", 7), with("sub", []string{"alice"}), with("nbf", "soon"), with("iat", map[string]any{})},
		"than 16 KiB":    {with("padding", strings.Repeat("x", 16<<10))},
	} {
		for _, c := range claims {
			w.unsigned(p.signs(c, nil), why)
		}
	}
	for _, skewed := range []map[string]any{with("exp", now.Add(-10*time.Second).Unix()), with("nbf", now.Add(10*time.Second).Unix()), with("iat", now.Add(10*time.Second).Unix())} {
		(caller{w, p.signs(skewed, nil)}).get("/me")
	}
	w.unsigned(p.signs(good, map[string]any{"typ": "logout+jwt"}), "a kind that")
	w.unsigned(p.signs(good, map[string]any{"typ": 7}), "a kind that")

	// Claims are read as they are called: the library takes those of another case for them.
	elsewhere := with("aud", "https://others.example")
	elsewhere["AUD"], elsewhere["Aud"] = audience, audience
	w.unsigned(p.signs(elsewhere, nil), "not for this")
	others := with("iss", nil)
	others["ISS"], others["i\u017fs"] = p.server.URL, p.server.URL
	w.unsigned(p.signs(others, nil), "another issuer")

	// Signed by nobody, with a secret that everybody knows, or with another key.
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(p.signs(good, nil), ".")[1] + "."
	w.unsigned(none, "no signed JWT")
	w.unsigned(none+strings.Split(p.signs(good, nil), ".")[2], "no signed JWT")
	public, err := json.Marshal(jose.JSONWebKey{Key: &p.key.private.PublicKey})
	require.NoError(t, err)
	w.unsigned(signedBy(t, jose.SigningKey{Algorithm: jose.HS256, Key: public}, good, nil, p.key.id), "algorithm")
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	w.unsigned(signedBy(t, jose.SigningKey{Algorithm: jose.ES256, Key: other}, good, nil, p.key.id), "signature is wrong")
	w.unsigned(signedBy(t, jose.SigningKey{Algorithm: jose.ES256, Key: other}, good, nil, "made up"), "does not show")
	// One that brings its own key.
	embedded, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: other}, &jose.SignerOptions{EmbedJWK: true})
	require.NoError(t, err)
	text, err := json.Marshal(good)
	require.NoError(t, err)
	signed, err := embedded.Sign(text)
	require.NoError(t, err)
	brought, err := signed.CompactSerialize()
	require.NoError(t, err)
	w.unsigned(brought, "wrong")
	w.unsigned("x.y.z", "no signed JWT")
	w.unsigned("garbage", "no signed JWT")
	w.unsigned("ems_1_x", "mistyped")
}

func TestWhoHasNoTokenIsToldHowToSignIn(t *testing.T) {
	t.Parallel()
	w, _ := believing(t)
	r := caller{world: w}.do("GET", "/me", nil)
	require.Equal(t, 401, r.status)
	require.Equal(t, `Bearer realm="echomind"`, r.header.Get("WWW-Authenticate"))
	r = w.as(7, identity.User, identity.Read).do("POST", "/tokens", map[string]any{"scopes": []string{"read"}})
	require.Equal(t, 403, r.status)
	require.Equal(t, `Bearer realm="echomind", error="insufficient_scope", scope="write"`, r.header.Get("WWW-Authenticate"))
}

func TestWhileTheIssuerIsAwayItsKeysGoOnToCount(t *testing.T) {
	t.Parallel()
	w, p := believing(t)
	w.link(7, p.server.URL, "alice")
	me := caller{w, p.gives("alice", nil)}
	p.down.Store(true)
	r := me.do("GET", "/me", nil)
	me.refused(503, "unavailable", r)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.NotContains(t, r.text, p.server.URL)
	require.EqualValues(t, 9, w.as(9, identity.User).get("/me")["user_id"])
	p.down.Store(false)
	require.Eventually(t, func() bool { return me.do("GET", "/me", nil).status == 200 }, time.Minute, 100*time.Millisecond)
	p.down.Store(true)
	me.get("/me")
	(caller{w, p.signs(p.usual(nil), nil)}).get("/me")
	p.rotate()
	newer := caller{w, p.signs(p.usual(nil), nil)}
	require.Eventually(t, func() bool { return newer.do("GET", "/me", nil).status == 503 }, time.Minute, 100*time.Millisecond)
	me.get("/me")
	p.down.Store(false)
	require.Eventually(t, func() bool { return newer.do("GET", "/me", nil).status == 200 }, time.Minute, 100*time.Millisecond)
}

func TestNoTokenIsInALog(t *testing.T) {
	t.Parallel()
	w, p := believing(t)
	var logged bytes.Buffer
	cfg := api.Config{Rate: 1000, Burst: 1000, RequestSeconds: ample}
	believes(&cfg, p)
	pool, err := postgres.Open(t.Context(), w.url, "echomind-api", 2, postgres.As("echomind_api"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a, err := api.New(cfg, pool, connect.NewProcess(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	require.NoError(t, err)
	server := httptest.NewServer(a.Handler())
	token := p.gives("alice", nil)
	p.down.Store(true)
	require.Equal(t, 503, caller{&world{T: t, server: server}, token}.do("GET", "/me", nil).status)
	server.Close() // and nobody logs any more
	require.Contains(t, logged.String(), "issuer")
	for _, part := range strings.Split(token, ".") {
		require.NotContains(t, logged.String(), part)
	}
}

// The role and the groups of the issuer count as they are in each token, within what is written down.
func TestWhatTheIssuerSaysOfRolesAndGroupsIsTakenAtEachRequest(t *testing.T) {
	t.Parallel()
	w, p := believing(t, func(c *api.Config) {
		c.SignIn.RolesClaim, c.SignIn.GroupsClaim, c.SignIn.ScopesClaim, c.SignIn.ScopesPrefix = "realm_access.roles", "groups", "scope", "echomind:"
		c.SignIn.Admins, c.SignIn.Superadmins = []string{"admins"}, []string{"roots"}
		c.SignIn.Groups, c.SignIn.Leads = []string{"/Team = A=eng", "*"}, []string{"/Leads=eng"}
	})
	w.link(7, p.server.URL, "alice")
	is := func(claims map[string]any, role string, groups, leads, scopes []any) {
		t.Helper()
		r := caller{w, p.gives("alice", claims)}.do("GET", "/me", nil)
		if len(scopes) == 0 {
			require.Equal(t, 403, r.status)
			return
		}
		require.Equal(t, []any{role, groups, leads, scopes}, []any{r.body["role"], r.body["groups"], r.body["leads"], r.body["scopes"]})
	}
	roles := func(roles ...string) map[string]any { return map[string]any{"roles": roles} }
	is(map[string]any{"scope": "openid echomind:read"}, "user", []any{}, []any{}, []any{"read"})
	is(map[string]any{"realm_access": roles("x", "admins", "roots"), "groups": []string{"/Team = A", "docs", "no name of ours", "*"}, "scope": "echomind:read echomind:admin"},
		"superadmin", []any{"docs", "eng"}, []any{}, []any{"read", "admin"})
	is(map[string]any{"realm_access": roles("admins"), "groups": "/Leads", "scope": []string{"echomind:read", "write"}}, "admin", []any{"eng"}, []any{"eng"}, []any{"read"})
	is(map[string]any{"realm_access.roles": []string{"admins"}, "scope": "echomind:read"}, "admin", []any{}, []any{}, []any{"read"})
	is(map[string]any{"realm_access": "roots", "groups": 7, "scope": "echomind:read"}, "user", []any{}, []any{}, []any{"read"})
	is(nil, "user", nil, nil, nil)
	w.exec(`INSERT INTO users VALUES (7, 'user')`)
	w.exec(`INSERT INTO group_members VALUES (7, 'docs', true)`)
	is(map[string]any{"realm_access": roles("roots"), "groups": []string{"docs"}, "scope": "echomind:read"}, "user", []any{"docs"}, []any{"docs"}, []any{"read"})
}

// What an issuer may take back is not kept by a token of ours.
func TestWhoIsSignedInByAnIssuerMakesNoTokenThatOutlastsWhatItSays(t *testing.T) {
	t.Parallel()
	w, p := believing(t, func(c *api.Config) { c.SignIn.RolesClaim, c.SignIn.Superadmins = "roles", []string{"roots"} })
	w.link(7, p.server.URL, "alice")
	me := caller{w, p.gives("alice", map[string]any{"roles": "roots"})}
	require.Equal(t, "superadmin", me.get("/me")["role"])
	for _, body := range []map[string]any{{"role": "admin", "scopes": []string{"read"}}, {"user_id": 8, "scopes": []string{"read"}}} {
		me.refused(403, "forbidden", me.do("POST", "/tokens", body))
	}
	made := me.do("POST", "/tokens", map[string]any{"scopes": []string{"read"}})
	require.Equal(t, 201, made.status, made.text)
	require.Equal(t, "user", (caller{w, made.body["token"].(string)}).get("/me")["role"])
	w.exec(`INSERT INTO users VALUES (7, 'superadmin')`)
	require.Equal(t, 201, me.do("POST", "/tokens", map[string]any{"role": "superadmin", "scopes": []string{"read"}}).status)
}

// Who is a user of ours, who is made one, and who is none any more.
func TestASubjectIsAUserWhereThatIsSaid(t *testing.T) {
	t.Parallel()
	w, p := believing(t, func(c *api.Config) { c.SignIn.NewUsers = 2 })
	alice, bob, carol := caller{w, p.gives("alice", nil)}, caller{w, p.gives("bob", nil)}, caller{w, p.gives("carol", nil)}
	first := alice.get("/me")["user_id"]
	require.Equal(t, first, alice.get("/me")["user_id"])
	require.NotEqual(t, first, bob.get("/me")["user_id"])
	require.GreaterOrEqual(t, first, 1e9)
	r := carol.do("GET", "/me", nil)
	carol.refused(403, "forbidden", r)
	require.Contains(t, r.body["detail"], "no more users are made today")
	require.Equal(t, fmt.Sprintf("identities.create %s/alice api user %.0f %s alice true", p.server.URL, first, p.server.URL),
		one[string](w, `SELECT concat_ws(' ', action, object_id, source, person, issuer, subject, (request_id IS NOT NULL)::text) FROM audit ORDER BY id LIMIT 1`))
	require.Equal(t, 2, one[int](w, `SELECT count(*) FROM identities`))

	w.link(7, p.server.URL, "carol")
	require.EqualValues(t, 7, carol.get("/me")["user_id"])
	w.exec(`INSERT INTO users VALUES (7, 'admin')`)
	w.exec(`DELETE FROM users`) // as `echomind users remove` does
	for range 2 {
		r = carol.do("GET", "/me", nil)
		carol.refused(403, "forbidden", r)
		require.Contains(t, r.body["detail"], "any more")
	}
	require.Contains(t, r.body["fix"], "users link")
	w.link(7, p.server.URL, "carol")
	require.EqualValues(t, 7, carol.get("/me")["user_id"])
}

func TestAClaimMayNameOurUserButNoneThatWasRemoved(t *testing.T) {
	t.Parallel()
	w, p := believing(t, func(c *api.Config) { c.SignIn.UserIDClaim, c.SignIn.NewUsers = "https://echomind.example/user", 5 })
	number := func(value any) caller {
		return caller{w, p.gives("alice", map[string]any{"https://echomind.example/user": value})}
	}
	require.EqualValues(t, 7, number(7).get("/me")["user_id"])
	require.EqualValues(t, 8, number("8").get("/me")["user_id"])
	for _, wrong := range []any{0, -1, "x", 1 << 31, 1.5, nil, []int{7}, "7 "} {
		require.Equal(t, 401, number(wrong).do("GET", "/me", nil).status, wrong)
	}
	w.exec(`INSERT INTO removed_users VALUES (7)`)
	require.Equal(t, 403, number(7).do("GET", "/me", nil).status)
	w.link(7, p.server.URL, "alice")
	require.EqualValues(t, 7, number(9).get("/me")["user_id"]) // what is linked goes first
	require.Equal(t, 0, one[int](w, `SELECT count(*) FROM removed_users`))
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM identities`))
}

func TestAnEMailAddressIsNobodyUntilItsIssuerHasVerifiedIt(t *testing.T) {
	t.Parallel()
	w, p := believing(t, func(c *api.Config) { c.SignIn.SubjectClaim = "email" })
	w.link(7, p.server.URL, "alice@a.example")
	for _, verified := range []any{nil, false, "false", 1} {
		w.unsigned(p.gives("x", map[string]any{"email": "alice@a.example", "email_verified": verified}), "verified")
	}
	me := caller{w, p.gives("x", map[string]any{"email": "alice@a.example", "email_verified": true})}
	require.EqualValues(t, 7, me.get("/me")["user_id"])
}

// What an issuer sends is bounded, and it leads nowhere else.
func TestAnIssuerThatSendsTooMuchOrElsewhereIsAway(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	token := p.gives("alice", nil)
	for name, answers := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<16))); err != nil {
					return
				}
			}
		},
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, p.server.URL+r.URL.Path, http.StatusFound)
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":"http://%s","jwks_uri":"http://192.0.2.1/keys"}`, r.Host)
		},
		"another": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":"%s","jwks_uri":"%s/keys"}`, p.server.URL, p.server.URL)
		},
		"no keys": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":"http://%s","jwks_uri":"http://%s/keys","keys":[{"kty":"oct","k":"c2VjcmV0"},{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`, r.Host, r.Host)
		},
	} {
		server := httptest.NewServer(answers)
		t.Cleanup(server.Close)
		w := newWorld(t, func(c *api.Config) { believes(c, p); c.SignIn.Issuer = server.URL })
		r := caller{w, token}.do("GET", "/me", nil)
		require.Equal(t, 503, r.status, name)
	}
}
