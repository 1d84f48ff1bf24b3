//go:build !race

package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/testonly/signintest"
)

// begun begins a consent over REST, and returns how it is shown, and the address at the provider.
func (c *consenting) begun(by caller, id int32) (path, address string) {
	c.Helper()
	r := by.do("POST", fmt.Sprintf("/connectors/%d/consents", id), nil)
	require.Equal(c, http.StatusCreated, r.status, r.text)
	require.Equal(c, "waiting", r.body["state"])
	return fmt.Sprintf("/consents/%.0f", r.body["id"]), r.body["address"].(string)
}

func TestAnAccountIsConnectedOverREST(t *testing.T) {
	t.Parallel()
	for connectorType, config := range map[string]string{
		consent.GoogleDrive: `{"folder_id": "1a2b", "client_id": "another", "client_secret": "of another"}`,
		consent.OneDrive:    `{"tenant_id": "contoso.example", "site": "contoso.sharepoint.com:/sites/Marketing"}`,
	} {
		t.Run(connectorType, func(t *testing.T) {
			t.Parallel()
			c := newConsenting(t)
			id := c.source(connectorType, config)
			version := one[int64](c.world, `SELECT config_version FROM connectors`)
			me := c.as(7, identity.User)
			path, address := c.begun(me, id)
			at, err := url.Parse(address)
			require.NoError(t, err)
			require.Equal(t, "S256", at.Query().Get("code_challenge_method"))
			require.NotContains(t, one[string](c.world, `SELECT sealed FROM consents`), at.Query().Get("state"))
			back := c.consents(address)
			b := me.signedIn()
			page := b.get(back)
			require.Equal(t, http.StatusOK, page.status, page.text)
			require.Contains(t, page.text, "It is connected, and everything is fetched again.")
			shown := me.get(path)
			require.Equal(t, []any{"connected", nil, float64(id)}, []any{shown["state"], shown["problem"], shown["connector_id"]})
			require.NotEmpty(t, shown["ended_at"])
			require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, c.credentials(id, connectorType))
			require.Greater(t, one[int64](c.world, `SELECT config_version FROM connectors`), version)
			require.Equal(t, 1, one[int](c.world, `SELECT count(*) FROM audit WHERE action = 'connectors.update' AND note = 'consent in a browser' AND user_id = 7`))
			require.Empty(t, one[string](c.world, `SELECT sealed FROM consents`))
			require.Equal(t, http.StatusConflict, b.get(back).status, "a consent comes back once")
			require.Equal(t, "connected", me.get(path)["state"])
			theirs := c.as(8, identity.Superadmin)
			theirs.refused(404, "not-found", theirs.do("GET", path, nil))
		})
	}
}

func TestAConsentThatWasBegunOverRESTIsTakenFromABrowserOfTheSameUserAtTheSameAddress(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{"folder_id": "1a2b"}`)
	me := c.as(7, identity.User)
	path, address := c.begun(me, id)
	back := c.consents(address)
	require.Equal(t, http.StatusUnauthorized, c.browser().get(back).status)
	require.Equal(t, http.StatusConflict, c.as(8, identity.Superadmin).signedIn().get(back).status, "a superadmin is not who began it")
	b := me.signedIn()
	require.Equal(t, http.StatusConflict, b.get(strings.Replace(back, "state=", "state=x", 1)).status)
	require.Equal(t, http.StatusConflict, b.get(back+"&state=x").status)
	require.Equal(t, http.StatusForbidden, c.as(7, identity.User, identity.Read).signedIn().get(back).status, "a browser that may change nothing")
	require.Zero(t, c.tokensAsked(), "no code was redeemed")
	require.Equal(t, "failed", me.get(path)["state"])

	path, address = c.begun(me, id)
	back = c.consents(address)
	c.exec(`UPDATE connectors SET name = 'other' WHERE id = $1`, id)
	c.exec(`UPDATE consents SET until = clock_timestamp() WHERE ended_at IS NULL`)
	require.Equal(t, http.StatusConflict, b.get(back).status)
	require.Equal(t, "expired", me.get(path)["state"])
	require.Zero(t, c.tokensAsked())
	require.Empty(t, c.credentials(id, consent.GoogleDrive))
}

func TestAConsentThatWasBegunOverRESTIsTakenAtTheAddressThatTheProviderWasTold(t *testing.T) {
	t.Parallel()
	var first api.Config
	c := newConsenting(t, func(cfg *api.Config) { first = *cfg })
	id := c.source(consent.GoogleDrive, `{}`)
	me := c.as(7, identity.User)
	other := c.replica(func(cfg *api.Config) { cfg.Secrets, cfg.Consent = first.Secrets, c.config })
	path, address := c.begun(me, id)
	back := c.consents(address)
	page := caller{other, me.token}.signedIn().get(back)
	require.Equal(t, http.StatusConflict, page.status, page.text)
	require.Zero(t, c.tokensAsked())
	require.Equal(t, "waiting", me.get(path)["state"])
	require.Equal(t, http.StatusOK, me.signedIn().get(back).status)
}

func TestAConsentThatFailsSaysWhyOverREST(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{"folder_id": "1a2b"}`)
	me := c.as(7, identity.User)
	c.provider.Denies = true
	path, address := c.begun(me, id)
	require.Equal(t, http.StatusConflict, me.signedIn().get(c.consents(address)).status)
	shown := me.get(path)
	require.Equal(t, "failed", shown["state"])
	require.Contains(t, shown["problem"], "the consent was refused; nothing is connected")
	c.provider.Denies = false

	c.exec(`INSERT INTO group_members VALUES (7, 'g', true)`)
	path, address = c.begun(me, id)
	back := c.consents(address)
	c.exec(`UPDATE connectors SET scope = 'group', scope_id = 'g' WHERE id = $1`, id)
	require.Equal(t, http.StatusConflict, me.signedIn().get(back).status)
	require.Contains(t, me.get(path)["problem"], "Other people find what is stored of the source")
	require.Zero(t, c.tokensAsked())
}

func TestOnlyWhoMayChangeASourceBeginsAConsentAndAFewAtOnce(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id, web := c.source(consent.GoogleDrive, `{}`), c.source("web", `{"url": "https://site.example/"}`)
	path := fmt.Sprintf("/connectors/%d/consents", id)
	me, other, reads := c.as(7, identity.User), c.as(8, identity.User), c.as(7, identity.User, identity.Read, identity.Operate)
	other.refused(404, "not-found", other.do("POST", path, nil))
	reads.refused(403, "forbidden", reads.do("POST", path, nil))
	me.refused(409, "conflict", me.do("POST", fmt.Sprintf("/connectors/%d/consents", web), nil))
	org := one[int32](c.world, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('all', 'google_drive', 1, 'org') RETURNING id`)
	me.refused(403, "forbidden", me.do("POST", fmt.Sprintf("/connectors/%d/consents", org), nil))
	require.Zero(t, one[int](c.world, `SELECT count(*) FROM consents`))
	for range 20 {
		c.begun(me, id)
	}
	me.refused(409, "conflict", me.do("POST", path, nil))
	c.exec(`UPDATE consents SET until = clock_timestamp() - interval '2 days'`)
	c.begun(me, id)
	require.Equal(t, 1, one[int](c.world, `SELECT count(*) FROM consents`), "what is old is forgotten")
}

func TestAConsentIsTakenAlsoWhereItsBrowserIsGone(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		leave()
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token": "a", "token_type": "Bearer", "expires_in": 3599, "refresh_token": %q}`, signintest.RefreshToken)
	}))
	defer tokens.Close()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{}`)
	other := c.replica(func(cfg *api.Config) {
		cfg.SecretsKey = c.key
		cfg.Consent = c.config
		cfg.Consent.GoogleTokenURL = tokens.URL
	})
	me := caller{other, c.as(7, identity.User).token}
	r := me.do("POST", fmt.Sprintf("/connectors/%d/consents", id), nil)
	require.Equal(t, 201, r.status, r.text)
	at, err := url.Parse(r.body["address"].(string))
	require.NoError(t, err)
	b := me.signedIn()
	back, err := http.NewRequestWithContext(gone, http.MethodGet, other.server.URL+"/connect/back?code=c&state="+url.QueryEscape(at.Query().Get("state")), nil)
	require.NoError(t, err)
	for name, value := range b.cookies() {
		back.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	other.api.Handler().ServeHTTP(httptest.NewRecorder(), back)
	require.Error(t, gone.Err(), "the provider was asked")
	require.Equal(t, "connected", me.get(fmt.Sprintf("/consents/%.0f", r.body["id"]))["state"])
}

func TestAConsentWhoseConnectorIsHeldWaitsOn(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{}`)
	me := c.as(7, identity.User)
	path, address := c.begun(me, id)
	back, b := c.consents(address), me.signedIn()
	conn, err := pgx.Connect(t.Context(), c.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	for _, held := range []string{`SELECT FROM connectors FOR UPDATE`, `LOCK TABLE consents`} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), held)
		require.NoError(t, err)
		page := b.get(back)
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, http.StatusConflict, page.status)
		require.NotContains(t, page.text, "This is no answer", held)
		require.Equal(t, "waiting", me.get(path)["state"], held)
	}
	require.Equal(t, http.StatusOK, b.get(back).status)
	require.Equal(t, "connected", me.get(path)["state"])
}

func TestAConsentThatComesBackLeavesOneThatWasBegunAtThePage(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	first, second := c.source(consent.GoogleDrive, `{}`), c.source(consent.GoogleDrive, `{}`)
	me := c.as(7, identity.User)
	b := me.signedIn()
	atPage := c.consents(c.asked(b, first))
	_, address := c.begun(me, second)
	require.Equal(t, http.StatusOK, b.get(c.consents(address)).status)
	require.Equal(t, http.StatusOK, b.get(atPage).status)
	require.NotEmpty(t, c.credentials(first, consent.GoogleDrive))
}

func TestAConsentIsShownForADay(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	me := c.as(7, identity.User)
	path, _ := c.begun(me, c.source(consent.GoogleDrive, `{}`))
	c.exec(`UPDATE consents SET until = clock_timestamp() - interval '25 hours'`)
	me.refused(404, "not-found", me.do("GET", path, nil))
}

func TestAConsentComesBackToTheAddressAsABrowserWritesIt(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{}`)
	me := c.as(7, identity.User)
	for host, want := range map[string]string{"Sync.Example": "https://sync.example", "sync.example:443": "https://sync.example", "sync.example:80": "https://sync.example:80", "[::1]:443": "https://[::1]"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("%s/api/v1/connectors/%d/consents", c.server.URL, id), nil)
		require.NoError(t, err)
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+me.token)
		r.Header.Set("X-Forwarded-Proto", "https")
		w := httptest.NewRecorder()
		c.api.Handler().ServeHTTP(w, r)
		require.Equal(t, 201, w.Code, w.Body.String())
		require.Contains(t, w.Body.String(), "redirect_uri="+url.QueryEscape(want+"/connect/back"), host)
	}
}

// The service may stop between taking an answer and redeeming its code.
func TestWhoBringsAnAnswerAgainAfterTheServiceStoppedIsToldToConnectAgain(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	id := c.source(consent.GoogleDrive, `{"folder_id": "1a2b"}`)
	me := c.as(7, identity.User)
	b := me.signedIn()
	_, address := c.begun(me, id)
	for way, back := range map[string]string{"over REST": c.consents(address), "at the page": c.consents(c.asked(b, id))} {
		answer, err := url.Parse(back)
		require.NoError(t, err)
		c.exec(`INSERT INTO request_keys (user_id, key, asked) SELECT 7, 'consent ' || encode(s, 'hex'), s FROM sha256($1::text::bytea) s`, answer.Query().Get("state"))
		page := b.get(back)
		require.Equal(t, http.StatusConflict, page.status, way)
		require.Contains(t, page.text, "This answer was taken before", way)
		require.Contains(t, page.text, "connect it again", way)
	}
	require.Zero(t, c.tokensAsked(), "no code was redeemed")
}

func TestConsentsOfBeforeAreRemovedAlsoWhereNobodyBeginsAnother(t *testing.T) {
	t.Parallel()
	c := newConsenting(t)
	c.exec(`INSERT INTO consents (user_id, connector_id, state_sha256, sealed, until)
		SELECT 7, 1, sha256(n::text::bytea), 'x', clock_timestamp() - CASE WHEN n > 5 THEN interval '1 hour' ELSE interval '25 hours' END FROM generate_series(1, 7) n`)
	require.Equal(t, []int{4, 1, 0}, []int{one[int](c.world, `SELECT moves.keep_audit('30 days', 4)`), one[int](c.world, `SELECT moves.keep_audit('30 days', 4)`), one[int](c.world, `SELECT moves.keep_audit('30 days', 4)`)})
	require.Equal(t, 2, one[int](c.world, `SELECT count(*) FROM consents`))
}
