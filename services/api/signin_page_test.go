//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// welcoming is an API whose page has an issuer sign people in; that person is user 7.
func welcoming(t *testing.T, change ...func(*api.Config)) (*world, *provider) {
	t.Helper()
	w, p := believing(t, append([]func(*api.Config){func(c *api.Config) {
		c.SignIn.ClientID, c.SignIn.ClientSecret, c.SignIn.PageScopes = pageID, pageSecret, []string{"openid", "profile"}
	}}, change...)...)
	p.back = w.server.URL + "/sign-in/back"
	w.link(7, p.server.URL, person)
	return w, p
}

// cookies are those that the browser keeps, by their names.
func (b *browser) cookies() map[string]string {
	b.Helper()
	at, err := url.Parse(b.server.URL)
	require.NoError(b, err)
	kept := map[string]string{}
	for _, c := range b.client.Jar.Cookies(at) {
		kept[c.Name] = c.Value
	}
	return kept
}

// goes follows no redirect: it returns where it leads.
func (b *browser) goes(path string, headers ...string) *url.URL {
	b.Helper()
	follow := b.client.CheckRedirect
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer func() { b.client.CheckRedirect = follow }()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
	require.NoError(b, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := b.client.Do(r)
	require.NoError(b, err)
	require.NoError(b, answer.Body.Close())
	at, err := answer.Location()
	require.NoError(b, err, answer.Status)
	return at
}

// signsIn has the issuer sign the browser's person in.
func (b *browser) signsIn() {
	b.Helper()
	page := b.get("/sign-in/issuer")
	_, said, _ := strings.Cut(page.text, "role=\"alert\">")
	require.Equal(b, http.StatusOK, page.status, said[:min(len(said), 400)])
}

// answered begins a sign-in, and goes as far as the issuer's answer, which the page has not seen.
func (b *browser) answered() *url.URL {
	b.Helper()
	at := b.goes(b.server.URL + "/sign-in/issuer?to=/runs")
	for at.Path != "/sign-in/back" {
		at = b.goes(at.String())
	}
	return at
}

func TestWhomTheIssuerSignsInAtThePageIsLedBackToWhereTheyWanted(t *testing.T) {
	t.Parallel()
	w, _ := welcoming(t)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	b := w.browser()
	asked := b.get(fmt.Sprintf("/sources/%d?zone=UTC", c.id))
	require.Equal(t, http.StatusUnauthorized, asked.status)
	link := fmt.Sprintf("/sign-in/issuer?to=%%2fsources%%2f%d%%3fzone%%3dUTC", c.id)
	require.Contains(t, asked.text, `href="`+link+`"`)
	asks := b.goes(b.server.URL + link).Query()
	require.Equal(t, []string{"code", "S256"}, []string{asks.Get("response_type"), asks.Get("code_challenge_method")})
	for _, name := range []string{"code_challenge", "state", "nonce"} {
		require.NotEmpty(t, asks.Get(name), name)
	}
	page := b.get(link)
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Equal(t, fmt.Sprintf("/sources/%d", c.id), page.at.Path)
	require.Equal(t, "zone=UTC", page.at.RawQuery)
	require.Equal(t, http.StatusOK, b.do("POST", fmt.Sprintf("/sources/%d/disable", c.id), url.Values{}).status)
	require.Equal(t, "api id1 user 7", one[string](w, `SELECT source || ' ' || subject || ' ' || person FROM audit WHERE action = 'connectors.disable'`))
	require.Equal(t, http.StatusForbidden, b.do("POST", fmt.Sprintf("/sources/%d/enable", c.id), url.Values{}, "Sec-Fetch-Site", "cross-site").status)
	require.Len(t, b.cookies(), 1, "what the sign-in needed is forgotten")
	require.Contains(t, b.get("/").text, "Sign out</button>")
}

func TestAtThePageTheIssuerSaysRoleAndGroups(t *testing.T) {
	t.Parallel()
	w, p := welcoming(t, func(c *api.Config) {
		c.SignIn.RolesClaim, c.SignIn.GroupsClaim, c.SignIn.Admins, c.SignIn.Groups = "roles", "groups", []string{"boss"}, []string{"Team G=g"}
		c.SignIn.ScopesClaim = "scope" // is of access tokens
	})
	w.exec(`INSERT INTO users VALUES (7, 'superadmin')`)
	c := w.something(identity.Ownership{UserID: 8, Scope: "group", GroupID: "g"})
	at := fmt.Sprintf("/sources/%d", c.id)
	for _, s := range []struct {
		claims       map[string]any
		sees, change int
	}{
		{map[string]any{"roles": []string{"boss"}, "groups": []string{"Team G"}}, http.StatusOK, http.StatusOK},
		{map[string]any{"groups": []string{"Team G"}}, http.StatusOK, http.StatusForbidden},
		{nil, http.StatusNotFound, http.StatusNotFound},
	} {
		p.claims = s.claims
		b := w.browser()
		b.signsIn()
		require.Equal(t, s.sees, b.get(at).status, s.claims)
		require.Equal(t, s.change, b.do("POST", at+"/sync", url.Values{}).status, s.claims)
	}
}

func TestAnAnswerToNoSignInOfThisBrowserSignsNobodyIn(t *testing.T) {
	t.Parallel()
	w, p := welcoming(t)
	with := func(at *url.URL, change func(url.Values)) string {
		q := at.Query()
		change(q)
		return "/sign-in/back?" + q.Encode()
	}
	same := func(url.Values) {}
	for what, s := range map[string]struct {
		change func(url.Values)
		before func(b *browser)
		want   string
	}{
		"of another browser":           {same, func(b *browser) { b.client.Jar, _ = cookiejar.New(nil) }, "was not begun in this browser"},
		"of a sign-in before the last": {same, func(b *browser) { b.goes(b.server.URL + "/sign-in/issuer") }, "another sign-in"},
		"without a state":              {func(q url.Values) { q.Del("state") }, nil, "another sign-in"},
		"another issuer's":             {func(q url.Values) { q.Set("iss", "https://evil.example") }, nil, "of another issuer"},
		"an error":                     {func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }, nil, "has signed nobody in: access_denied."},
		"a hostile error":              {func(q url.Values) { q.Del("code"); q.Set("error", "<script>alert(1)</script>") }, nil, "has signed nobody in."},
		"two states":                   {func(q url.Values) { q.Add("state", "x") }, nil, "state twice"},
		"no code":                      {func(q url.Values) { q.Del("code") }, nil, "no code"},
		"a long code":                  {func(q url.Values) { q.Set("code", strings.Repeat("x", 5000)) }, nil, "is too long"}, // the address is
		"a made-up code":               {func(q url.Values) { q.Set("code", "made-up") }, nil, "does not take its code"},
	} {
		b := w.browser()
		at := b.answered()
		if s.before != nil {
			s.before(b)
		}
		page := b.get(with(at, s.change))
		require.GreaterOrEqual(t, page.status, 400, what)
		require.Contains(t, page.text, s.want, what)
		require.NotContains(t, page.text, "<script>alert", what)
		require.NotContains(t, b.cookies(), "echomind_session", what)
		require.Equal(t, http.StatusUnauthorized, b.get("/").status, what)
	}
	b := w.browser()
	at := b.answered()
	require.Equal(t, http.StatusOK, b.do("HEAD", with(at, same), nil).status)
	require.Equal(t, http.StatusOK, b.do("GET", with(at, same), nil, "Sec-Purpose", "prefetch").status)
	require.Contains(t, b.cookies(), "echomind_flow", "who looks ahead uses nothing up")
	kept := b.client.Jar
	flow := b.cookies()["echomind_flow"]
	require.Equal(t, http.StatusOK, b.get(with(at, same)).status)
	kept.SetCookies(at, []*http.Cookie{{Name: "echomind_session", Path: "/", MaxAge: -1}, {Name: "echomind_flow", Value: flow, Path: "/"}})
	require.Contains(t, b.get(with(at, same)).text, "does not take its code", "a code is taken once")
	p.says = map[string]any{"authorization_response_iss_parameter_supported": true}
	other, q := welcoming(t)
	q.says = p.says
	require.Contains(t, other.browser().get(with(other.browser().answered(), same)).text, "was not begun")
	b = other.browser()
	require.Contains(t, b.get(with(b.answered(), func(q url.Values) { q.Del("iss") })).text, "of another issuer")
}

func TestWhatABrowserKeepsIsForOneUseAlone(t *testing.T) {
	t.Parallel()
	w, _ := welcoming(t)
	b := w.browser()
	b.signsIn()
	session := b.cookies()["echomind_session"]
	c := caller{w, session}
	require.Equal(t, http.StatusUnauthorized, c.do("GET", "/me", nil).status, "as a token")
	b.goes(b.server.URL + "/sign-in/issuer")
	flow := b.cookies()["echomind_flow"]
	at, err := url.Parse(w.server.URL)
	require.NoError(t, err)
	for what, value := range map[string]string{
		"a sign-in that goes on": flow, "one that was changed": session[:len(session)-2] + "xx", "an envelope": "enc:v1:k:AAAA", "too long": session + strings.Repeat("x", 5000), "a token of nobody": "ems_1_x",
	} {
		other := w.browser()
		other.client.Jar.SetCookies(at, []*http.Cookie{{Name: "echomind_session", Value: value, Path: "/"}})
		require.Equal(t, http.StatusUnauthorized, other.get("/").status, what)
	}
	other := w.browser()
	answer := other.answered()
	other.client.Jar.SetCookies(at, []*http.Cookie{{Name: "echomind_flow", Value: session, Path: "/"}})
	require.Contains(t, other.get("/sign-in/back?"+answer.RawQuery).text, "was not begun")
}

func TestWhoIsNoUserIsToldSoAndWhoWasRemovedIsSignedInNoMore(t *testing.T) {
	t.Parallel()
	w, p := welcoming(t)
	b := w.browser()
	b.signsIn()
	w.exec(`DELETE FROM identities`)
	require.Equal(t, http.StatusForbidden, b.get("/").status)
	page := w.browser().get("/sign-in/issuer")
	require.Equal(t, http.StatusForbidden, page.status)
	require.Contains(t, page.text, "no user of this system")
	require.Contains(t, page.text, "echomind users link USER --issuer &#39;"+p.server.URL)
}

func TestWhoSignsOutIsForgottenAlsoWhereTheSessionIsOver(t *testing.T) {
	t.Parallel()
	w, _ := welcoming(t)
	at, err := url.Parse(w.server.URL)
	require.NoError(t, err)
	b := w.browser()
	b.signsIn()
	for _, session := range []string{b.cookies()["echomind_session"], "enc:v1:k:AAAA", "ems_1_x", "x"} {
		b.client.Jar.SetCookies(at, []*http.Cookie{{Name: "echomind_session", Value: session, Path: "/"}})
		require.Equal(t, http.StatusForbidden, b.do("POST", "/sign-out", url.Values{}, "Sec-Fetch-Site", "cross-site").status)
		require.Contains(t, b.cookies(), "echomind_session")
		page := b.do("POST", "/sign-out", url.Values{})
		require.Equal(t, "/sign-in", page.at.Path)
		require.Empty(t, b.cookies(), session)
	}
}

// What the issuer says of its pages is no concern of who has a token of it.
func TestAnIssuerThatSaysOddThingsOfItselfSignsNobodyInAtThePageAndGoesOnForPrograms(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"authorization_endpoint": "http://evil.example/authorize", "token_endpoint": nil, "token_endpoint_auth_methods_supported": "basic"} {
		w, p := welcoming(t)
		p.says = map[string]any{name: value}
		page := w.browser().get("/sign-in/issuer")
		require.Equal(t, http.StatusServiceUnavailable, page.status, name)
		require.NotEmpty(t, page.header.Get("Retry-After"))
		require.Equal(t, http.StatusOK, caller{w, p.gives(person, nil)}.do("GET", "/me", nil).status, name)
	}
}

func TestWhoComesByAnotherAddressSignsInAtThePagesOwn(t *testing.T) {
	t.Parallel()
	w, p := welcoming(t)
	at, err := url.Parse(w.server.URL)
	require.NoError(t, err)
	b := w.browser()
	led := b.goes("http://localhost:" + at.Port() + "/sign-in/issuer?to=/runs")
	require.Equal(t, w.server.URL+"/sign-in/issuer?here=1&to=%2Fruns", led.String())
	require.Empty(t, b.cookies())
	// Behind a proxy that names itself the page's address is none that comes here: it is not sent there for ever.
	led = b.goes("http://localhost:" + at.Port() + "/sign-in/issuer?here=1")
	require.True(t, strings.HasPrefix(led.String(), p.server.URL+"/authorize?"), led)
	led = b.goes(w.server.URL+"/sign-in/issuer?to=/", "X-Forwarded-Proto", "https")
	require.Equal(t, w.server.URL+"/sign-in/issuer?here=1&to=%2F", led.String(), "cookies of https are others")
	led = b.goes(w.server.URL + "/sign-in/issuer?to=/")
	require.True(t, strings.HasPrefix(led.String(), p.server.URL+"/authorize?"), led)
	for _, to := range []string{"//evil.example", `/\evil.example`, "https://evil.example", "/%0d%0aX: y", "/" + strings.Repeat("x", 1001)} {
		b = w.browser()
		page := b.get("/sign-in/issuer?to=" + url.QueryEscape(to))
		require.Equal(t, at.Host, page.at.Host, to)
	}
}

func TestTooManyGroupsForACookieAreRefusedWithASentence(t *testing.T) {
	t.Parallel()
	w, p := welcoming(t, func(c *api.Config) { c.SignIn.GroupsClaim, c.SignIn.Groups = "groups", []string{"*"} })
	var groups []string
	for i := range 400 {
		groups = append(groups, fmt.Sprint("group-", i))
	}
	p.claims = map[string]any{"groups": groups}
	page := w.browser().get("/sign-in/issuer")
	require.Equal(t, http.StatusUnauthorized, page.status)
	require.Contains(t, page.text, "too many groups for a session of the page, 400")
}

func TestWhereNoIssuerSignsPeopleInThePageAsksForATokenAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.browser().get("/sign-in")
	require.NotContains(t, page.text, "/sign-in/issuer")
	require.Equal(t, http.StatusNotFound, w.browser().get("/sign-in/issuer").status)
	require.Equal(t, http.StatusNotFound, w.browser().get("/sign-in/back?code=x&state=x").status)
}

func TestThePageHasNobodySignedInWithoutAKeyToSealSessionsWith(t *testing.T) {
	t.Parallel()
	c := api.Config{}
	c.SignIn.ClientID = pageID
	require.ErrorContains(t, c.Validate(), "SECRETS_KEY: is required with OIDC_CLIENT_ID")
	c.SecretsKey = "x"
	require.NotContains(t, c.Validate().Error(), "SECRETS_KEY: is required")
}

func TestASessionThatIsNothingButACookieIsForgottenWhateverElseIsAway(t *testing.T) {
	t.Parallel()
	w, _ := welcoming(t, func(c *api.Config) { c.Rate, c.Burst = 0.1, 4 })
	b := w.browser()
	b.signsIn()
	for range 6 {
		b.get("/")
	}
	w.exec(`ALTER FUNCTION api.sign_in RENAME TO gone`)
	page := b.do("POST", "/sign-out", url.Values{})
	require.Equal(t, 200, page.status)
	require.Empty(t, b.cookies())
}

func TestWhatNobodyHasBegunTakesNothingOfWhatAnAddressMayTry(t *testing.T) {
	t.Parallel()
	w, _ := welcoming(t, func(c *api.Config) { c.Rate, c.Burst = 0.1, 5 })
	for range 25 {
		r, err := http.Get(w.server.URL + "/sign-in/back?state=x&code=y")
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, 401, r.StatusCode)
	}
	b := w.browser()
	b.signsIn()
	require.Contains(t, b.cookies(), "echomind_session")
}

func TestWhereSomebodyWantedToGoIsForgottenWhereItIsTooLongToBeKept(t *testing.T) {
	t.Parallel()
	w, _ := welcoming(t)
	for _, to := range []string{"/?" + strings.Repeat("&", 990), "/?q=" + strings.Repeat("<", 990)} {
		b := w.browser()
		page := b.get("/sign-in/issuer?to=" + url.QueryEscape(to))
		require.Equal(t, 200, page.status)
		require.Contains(t, b.cookies(), "echomind_session")
	}
}
