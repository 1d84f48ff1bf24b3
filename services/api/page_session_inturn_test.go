//go:build !race

package api_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

func TestALinkSignsItsFirstVisitorInAndNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.linkOf(w.as(7, identity.User).token)
	first, second := w.browser(), w.browser()
	page := first.opens(code)
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Equal(t, "/", page.at.Path)
	require.Contains(t, page.text, "user 7, user")
	page = second.opens(code)
	require.Equal(t, http.StatusUnauthorized, page.status)
	require.Contains(t, page.text, "used already")
	require.Equal(t, http.StatusUnauthorized, second.get("/").status)
	require.Equal(t, 1, w.sessions())
}

func TestALinkThatHasEndedOrWhoseTokenWasRevokedSignsNobodyIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.as(7, identity.User)
	ended, revoked := w.linkOf(mine.token), w.linkOf(mine.token)
	sum := sha256.Sum256([]byte(ended))
	w.exec(`UPDATE sign_in_links SET expires_at = clock_timestamp() - interval '1 second' WHERE code_sha256 = $1`, sum[:])
	require.Equal(t, http.StatusUnauthorized, w.browser().opens(ended).status)
	w.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp()`)
	require.Equal(t, http.StatusUnauthorized, w.browser().opens(revoked).status)
	require.Zero(t, w.sessions())
}

func TestALinkThatAnotherSiteLeadsToWaitsForAClick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.linkOf(w.as(7, identity.User).token)
	b := w.browser()
	page := b.do("GET", "/sign-in?code="+code, nil, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusOK, page.status)
	require.Contains(t, page.text, "Sign in by this link")
	require.Zero(t, w.sessions())
	require.Equal(t, http.StatusForbidden, b.do("POST", "/sign-in", url.Values{"code": {code}}, "Sec-Fetch-Site", "cross-site").status)
	require.Equal(t, "/", b.do("POST", "/sign-in", url.Values{"code": {code}}, "Sec-Fetch-Site", "same-origin").at.Path)
	require.Equal(t, 1, w.sessions())
}

func TestASessionCountsWhileItsTokenCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.as(7, identity.User)
	b := mine.signedIn()
	require.Equal(t, http.StatusOK, b.get("/").status)
	w.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE made_through = '{}'`)
	page := b.get("/")
	require.Equal(t, http.StatusUnauthorized, page.status)
	require.Contains(t, page.text, "Your session has ended")

	w.exec(`INSERT INTO users VALUES (8, 'user')`)
	b = w.as(8, identity.User).signedIn()
	require.Equal(t, http.StatusOK, b.get("/").status)
	w.exec(`DELETE FROM users WHERE user_id = 8`)
	require.Equal(t, http.StatusUnauthorized, b.get("/").status)
}

func TestASessionOfATokenThatEndsSoonEndsWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.as(7, identity.User)
	w.exec(`UPDATE access_tokens SET expires_at = clock_timestamp() + interval '1 hour'`)
	mine.signedIn()
	require.True(t, one[bool](w, `SELECT count(*) = 2 AND count(DISTINCT expires_at) = 1 FROM access_tokens`))
}

func TestWhoSignsOutIsSignedInNoMoreAlsoWithAKeptCookie(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User, identity.Read).signedIn()
	at, err := url.Parse(w.server.URL)
	require.NoError(t, err)
	kept := b.client.Jar.Cookies(at)
	page := b.do("POST", "/sign-out", url.Values{})
	require.Equal(t, "/sign-in", page.at.Path)
	require.Empty(t, b.client.Jar.Cookies(at))
	b.client.Jar.SetCookies(at, kept)
	require.Equal(t, http.StatusUnauthorized, b.get("/").status)
	require.Zero(t, w.sessions())
}

func TestTheCookieOfASessionIsForNoScriptAndNoOtherSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, b := w.as(7, identity.User), w.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	plain := b.do("POST", "/sign-in", url.Values{"token": {mine.token}}).header.Get("Set-Cookie")
	require.Regexp(t, `^echomind_session=ems_[^;]+; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax$`, plain)
	require.NotContains(t, plain, mine.token)
	safe := b.do("POST", "/sign-in", url.Values{"token": {mine.token}}, "X-Forwarded-Proto", "https").header.Get("Set-Cookie")
	require.Regexp(t, `^__Host-echomind_session=ems_[^;]+; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Lax$`, safe)
}

// The API takes no cookie: a page of another site cannot have a browser change anything by it.
func TestTheAPITakesNoSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.Superadmin).signedIn()
	require.Equal(t, http.StatusUnauthorized, b.get("/api/v1/me").status)
	require.Equal(t, http.StatusUnauthorized, b.do("POST", "/api/v1/tokens", url.Values{}).status)
}

func TestNoPageOfAnotherSiteChangesAnythingByASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	path := fmt.Sprintf("/sources/%d/disable", c.id)
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://elsewhere.example"}, {"Origin", "null"}} {
		page := b.do("POST", path, url.Values{}, headers...)
		require.Equal(t, http.StatusForbidden, page.status, headers)
		require.Equal(t, http.StatusForbidden, b.do("POST", "/sign-out", url.Values{}, headers...).status)
	}
	require.NotEqual(t, "DISABLED", one[string](w, `SELECT status FROM connectors WHERE id = $1`, c.id))
	require.Equal(t, http.StatusOK, b.do("POST", path, url.Values{}, "Sec-Fetch-Site", "same-origin").status)
	require.Equal(t, "DISABLED", one[string](w, `SELECT status FROM connectors WHERE id = $1`, c.id))
	require.Equal(t, http.StatusUnauthorized, w.browser().do("POST", path, url.Values{}).status)
}

func TestWhereToGoOnAfterwardsIsThisSiteAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.as(7, identity.User)
	for _, to := range []string{"https://elsewhere.example/", "//elsewhere.example/", `/\elsewhere.example/`, "/\t/elsewhere.example", "javascript:alert(1)", "sources"} {
		b := w.browser()
		b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		require.Equal(t, "/", b.do("POST", "/sign-in", url.Values{"token": {mine.token}, "to": {to}}).header.Get("Location"), to)
	}
	b := w.browser()
	require.Equal(t, "/sources/3?zone=UTC", b.do("POST", "/sign-in", url.Values{"token": {mine.token}, "to": {"/sources/3?zone=UTC"}}).at.RequestURI())
}

// The sessions of one token are one caller: their number buys nobody more questions.
func TestTheSessionsOfATokenShareOneRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.Rate, c.Burst = 0.001, 20 })
	mine, answered := w.as(7, identity.User), 0
	for range 4 {
		session := w.session(mine.token)
		for range 10 {
			if w.browser().do("GET", "/administration", nil, "Cookie", "echomind_session="+session).status == http.StatusOK {
				answered++
			}
		}
	}
	require.Positive(t, answered)
	require.LessOrEqual(t, answered, 20)
}

func TestASessionBeginsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.browser().do("POST", "/sign-in", url.Values{"token": {w.session(w.as(7, identity.User).token)}})
	require.Equal(t, http.StatusUnauthorized, page.status)
	require.Contains(t, page.text, "Sign in with the token that it was begun with")
	require.Equal(t, 1, w.sessions())
}

func TestSessionsOfAReadingTokenLeaveItsOwnerRoomForTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reading, own := w.as(7, identity.User, identity.Read), w.as(7, identity.User)
	kept := w.session(own.token)
	for range 105 {
		w.session(reading.token)
	}
	require.Equal(t, 21, w.sessions(), "20 of the one token, one of the other")
	require.Equal(t, http.StatusOK, w.browser().do("GET", "/", nil, "Cookie", "echomind_session="+kept).status)
	require.Equal(t, http.StatusCreated, own.do("POST", "/tokens", map[string]any{"name": "mine", "role": "user", "scopes": []string{"read"}}).status)
}

// Whose tokens somebody has made keeps their sessions, however often their maker signs in.
func TestASessionMoreEndsNoneOfATokenThatWasMadeThroughItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super := w.as(1, identity.Superadmin)
	made := super.do("POST", "/tokens", map[string]any{"user_id": 7, "name": "theirs", "role": "user", "scopes": []string{"read"}})
	require.Equal(t, http.StatusCreated, made.status)
	theirs := w.session(made.body["token"].(string))
	for range 22 {
		w.session(super.token)
	}
	require.Equal(t, 21, w.sessions(), "20 of the maker's, one of theirs")
	require.Equal(t, http.StatusOK, w.browser().do("GET", "/", nil, "Cookie", "echomind_session="+theirs).status)
}

func TestATokenBegins200SessionsInADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.as(7, identity.User)
	session := w.session(mine.token)
	w.exec(`INSERT INTO access_tokens (user_id, role, scopes, name, secret_sha256, made_through, expires_at, revoked_at, created_by)
		SELECT user_id, role, scopes, name, sha256(n::text::bytea), made_through, expires_at, clock_timestamp(), created_by
		FROM access_tokens, generate_series(1, 199) n WHERE name = 'browser'`)
	page := w.browser().do("POST", "/sign-in", url.Values{"token": {mine.token}})
	require.NotEqual(t, http.StatusOK, page.status)
	require.Contains(t, page.text, "200 sessions were begun with it in a day")
	require.Equal(t, http.StatusOK, w.browser().do("GET", "/", nil, "Cookie", "echomind_session="+session).status)
	refused := w.browser().opens(w.linkOf(mine.token))
	require.NotEqual(t, http.StatusOK, refused.status)
}

func TestATokenIsNotCalledWhatSessionsAreCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.as(7, identity.User).do("POST", "/tokens", map[string]any{"name": "browser", "role": "user", "scopes": []string{"read"}})
	require.Equal(t, http.StatusUnprocessableEntity, r.status)
}

// Behind TLS: another host of the domain, or a connection without TLS, can set a cookie of any name that does not begin with __Host-.
func TestBehindTLSACookieThatIsNotBoundToTheHostDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(w.as(7, identity.User).token)
	for _, proto := range []string{"https", "https, http", "HTTPS"} {
		require.Equal(t, http.StatusUnauthorized, w.browser().do("GET", "/", nil, "Cookie", "echomind_session="+session, "X-Forwarded-Proto", proto).status, proto)
		require.Equal(t, http.StatusOK, w.browser().do("GET", "/", nil, "Cookie", "__Host-echomind_session="+session, "X-Forwarded-Proto", proto).status, proto)
	}
}

func TestWhoLooksAtALinkAheadOfItsUserUsesItNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, b := w.linkOf(w.as(7, identity.User).token), w.browser()
	path := "/sign-in?code=" + code
	b.do("HEAD", path, nil, "Sec-Fetch-Site", "none")
	require.Contains(t, b.do("GET", path, nil, "User-Agent", "Slackbot-LinkExpanding 1.0").text, "Sign in by this link")
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Moz"} {
		b.do("GET", path, nil, "Sec-Fetch-Site", "none", name, "prefetch")
	}
	require.Zero(t, w.sessions())
	require.Equal(t, "/", b.opens(code).at.Path)
}
