package api_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

// browser is one without scripts: it keeps cookies, follows links and sends forms.
type browser struct {
	*world
	client *http.Client
}

func (w *world) browser() *browser {
	w.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(w, err)
	return &browser{w, &http.Client{Jar: jar}}
}

// shown is a page.
type shown struct {
	status int
	header http.Header
	text   string
	at     *url.URL
}

func (b *browser) do(method, path string, form url.Values, headers ...string) shown {
	b.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.Context(), method, b.server.URL+path, body)
	require.NoError(b, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answered, err := b.client.Do(r)
	require.NoError(b, err)
	defer func() { require.NoError(b, answered.Body.Close()) }()
	text, err := io.ReadAll(answered.Body)
	require.NoError(b, err)
	return shown{answered.StatusCode, answered.Header, string(text), answered.Request.URL}
}

func (b *browser) get(path string) shown {
	b.Helper()
	return b.do("GET", path, nil)
}

// signedIn is a browser with a session of somebody's token.
func (c caller) signedIn() *browser {
	c.Helper()
	b := c.browser()
	page := b.do("POST", "/sign-in", url.Values{"token": {c.token}})
	require.Equal(c, http.StatusOK, page.status, page.text)
	require.Equal(c, "/", page.at.Path)
	return b
}

// link makes a link of a token's, and returns its code.
func (w *world) linkOf(token string) string {
	w.Helper()
	id, _, err := identity.ParseToken(token)
	require.NoError(w, err)
	code := string(identity.NewSecret())
	sum := sha256.Sum256([]byte(code))
	w.exec(`INSERT INTO sign_in_links VALUES ($1, $2, clock_timestamp() + interval '15 minutes')`, sum[:], id)
	return code
}

func (w *world) sessions() int {
	w.Helper()
	return one[int](w, `SELECT count(*) FROM access_tokens WHERE name = 'browser' AND revoked_at IS NULL`)
}

func TestALinkSignsItsFirstVisitorInAndNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.linkOf(w.as(7, identity.User).token)
	first, second := w.browser(), w.browser()
	page := first.get("/sign-in?code=" + code)
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Equal(t, "/", page.at.Path)
	require.Contains(t, page.text, "user 7, user")
	page = second.get("/sign-in?code=" + code)
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
	require.Equal(t, http.StatusUnauthorized, w.browser().get("/sign-in?code="+ended).status)
	w.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp()`)
	require.Equal(t, http.StatusUnauthorized, w.browser().get("/sign-in?code="+revoked).status)
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

// What each page answers about a connector to each standing: what one may not see is not there, and what one may not change is not changed.
func TestEveryPageIsForWhomTheTableSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	for _, role := range identity.Roles {
		for _, s := range []standing{{role, false, false}, {role, true, false}, {role, true, true}} {
			w.exec(`DELETE FROM group_members`)
			who := identity.Who{UserID: 7, Role: role}
			if s.member {
				w.exec(`INSERT INTO group_members VALUES (7, 'g', $1)`, s.leader)
				who.Groups = []string{"g"}
			}
			if s.leader {
				who.Leads = []string{"g"}
			}
			b := w.as(7, s.role).signedIn()
			for _, of := range []identity.Ownership{
				{UserID: 7, Scope: "user"}, {UserID: 8, Scope: "user"}, {UserID: 8, Scope: "group", GroupID: "g"}, {UserID: 7, Scope: "group", GroupID: "h"},
				{UserID: 8, Scope: "org"}, {UserID: 8, Scope: "org", System: true},
			} {
				c := w.something(of)
				for operation, asked := range map[identity.Operation][]string{
					identity.GetConnector: {"GET", "/sources/%d"}, identity.PreviewSchedule: {"GET", "/sources/%d/schedule"},
					identity.UpdateConnector: {"POST", "/sources/%d/schedule"}, identity.SyncConnector: {"POST", "/sources/%d/sync"}, identity.DisableConnector: {"POST", "/sources/%d/disable"},
					identity.EnableConnector: {"POST", "/sources/%d/enable"},
				} {
					want := expected(who, operation, of)
					page := b.do(asked[0], fmt.Sprintf(asked[1], c.id), url.Values{"refresh_freq_minutes": {"77"}})
					if want < 300 {
						want = http.StatusOK
					}
					require.Equal(t, want, page.status, "%s by %+v of %+v: %s", operation, s, of, page.text)
				}
				require.Equal(t, who.Sees(of), strings.Contains(b.get("/").text, fmt.Sprintf(`"/sources/%d"`, c.id)), "%+v lists %+v", s, of)
				w.exec(`DELETE FROM connectors`)
			}
		}
	}
}

// hostile is what breaks out of a page that does not escape it.
const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>{{.}}`

func TestWhateverSomethingIsCalledIsShownAsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.Superadmin).signedIn()
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, config, schedule_cron) VALUES ($1, 'web', 7, jsonb_build_object($1::text, $1::text), '0 3 * * *') RETURNING id`, hostile)
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	w.exec(`UPDATE connectors SET name = $1 WHERE id = $2`, hostile, c.id)
	w.exec(`SELECT moves.cancel($1, $2)`, c.run, hostile)
	w.exec(`SELECT moves.disable($1, $2)`, id, hostile)
	for _, path := range []string{"/", "/?name=" + url.QueryEscape(hostile), fmt.Sprintf("/sources/%d", id), fmt.Sprintf("/sources/%d", c.id), fmt.Sprintf("/sources/%d/schedule", id),
		"/runs", "/problems", "/administration", "/audit", "/runs?type=" + url.QueryEscape(hostile), "/audit?connector_id=" + url.QueryEscape(hostile),
		fmt.Sprintf("/sources/%d/schedule?schedule_cron=%s", id, url.QueryEscape(hostile)), "/?zone=" + url.QueryEscape(hostile), "/?said=" + url.QueryEscape(hostile)} {
		page := b.get(path)
		require.Less(t, page.status, 500, page.text)
		require.NotContains(t, page.text, "<script>alert", path)
		require.NotContains(t, page.text, "<img", path)
		w.harmless(page)
	}
	require.Contains(t, b.get("/").text, "&lt;script&gt;alert(1)")
}

var quoted = regexp.MustCompile(`"[^"]*"`)

var addresses = regexp.MustCompile(`(?:src|href|action)="([^"]*)"`)

// harmless requires of a page that it has no script or style within itself, and nothing of another host.
func (w *world) harmless(page shown) {
	w.Helper()
	policy := page.header.Get("Content-Security-Policy")
	require.Contains(w, policy, "default-src 'none'")
	require.NotContains(w, policy, "unsafe")
	require.NotRegexp(w, `(?i)<style|<[^<>]*\s(style|on[a-z]+)=|<script(?: [^>]*)?>[^<]`, quoted.ReplaceAllString(page.text, `""`))
	for _, found := range addresses.FindAllStringSubmatch(page.text, -1) {
		require.Regexp(w, `^(/[^/\\]|/$|#)`, found[1])
	}
	require.Equal(w, "no-store", page.header.Get("Cache-Control"))
}

func TestASecretInAConfigurationIsOnNoPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.as(7, identity.User)
	made := mine.do("POST", "/connectors", map[string]any{"name": "x", "type": "web", "config": map[string]any{"url": "https://me:hunter2@site.example/", "password": "hunter2"}})
	require.Equal(t, http.StatusCreated, made.status, made.text)
	b := mine.signedIn()
	for _, path := range []string{"/", fmt.Sprintf("/sources/%v", made.body["id"]), fmt.Sprintf("/sources/%v/schedule", made.body["id"])} {
		page := b.get(path)
		require.Equal(t, http.StatusOK, page.status)
		require.NotContains(t, page.text, "hunter2", path)
	}
}

func TestEveryFilterOfSourcesIsInTheAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connectors (name, type, user_id) SELECT 'Manual ' || n, 'web', 7 FROM generate_series(1, 30) n`)
	w.exec(`INSERT INTO connectors (name, type, user_id) VALUES ('Letters', 'file', 7)`)
	w.exec(`SELECT moves.disable(id, 'x') FROM connectors WHERE name = 'Manual 3'`)
	for _, role := range []identity.Role{identity.User, identity.Superadmin} {
		b := w.as(7, role).signedIn()
		count := func(path string) int { return strings.Count(b.get(path).text, `class="name"`) }
		require.Equal(t, 25, count("/"))
		require.Equal(t, 1, count("/?name=letter"))
		require.Equal(t, 1, count("/?type=file"))
		require.Equal(t, 1, count("/?status=DISABLED"))
		require.Equal(t, 0, count("/?status=DISABLED&type=file"))
		next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(b.get("/").text)
		require.Len(t, next, 2)
		require.Equal(t, 6, count(strings.ReplaceAll(next[1], "&amp;", "&")))
		require.Equal(t, http.StatusUnprocessableEntity, b.get("/?status=NONE").status)
	}
}

func TestAScheduleIsChangedOfTheVersionThatWasShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('x', 'web', 7, 60) RETURNING id`)
	path := fmt.Sprintf("/sources/%d/schedule", id)
	form := b.get(path)
	version := regexp.MustCompile(`name="version" value="([^"]+)"`).FindStringSubmatch(form.text)
	require.Len(t, version, 2)
	was := strings.ReplaceAll(version[1], "&#34;", `"`)
	tried := b.get(path + "?refresh_freq_minutes=&schedule_cron=" + url.QueryEscape("0 3 * * *") + "&time_zone=Europe/Berlin")
	require.Contains(t, tried.text, "As it would be: 0 3 * * * Europe/Berlin")
	require.Equal(t, int32(60), one[int32](w, `SELECT refresh_freq_minutes FROM connectors WHERE id = $1`, id))
	wrong := b.do("POST", path, url.Values{"version": {was}, "schedule_cron": {"every day"}})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.status)
	require.Contains(t, wrong.text, `value="every day"`)
	saved := b.do("POST", path, url.Values{"version": {was}, "schedule_cron": {"0 3 * * *"}, "refresh_freq_minutes": {""}, "time_zone": {"Europe/Berlin"}})
	require.Equal(t, http.StatusOK, saved.status)
	require.Contains(t, saved.text, "The schedule was changed")
	require.Equal(t, "0 3 * * *", one[string](w, `SELECT schedule_cron FROM connectors WHERE id = $1`, id))
	late := b.do("POST", path, url.Values{"version": {was}, "refresh_freq_minutes": {"5"}, "schedule_cron": {""}})
	require.Equal(t, http.StatusPreconditionFailed, late.status)
	require.Equal(t, "0 3 * * *", one[string](w, `SELECT schedule_cron FROM connectors WHERE id = $1`, id))
}

func TestTimesAreShownWithTheirZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	w.exec(`INSERT INTO connectors (name, type, user_id, schedule_cron, time_zone) VALUES ('x', 'web', 7, '0 3 * * *', 'Asia/Tokyo')`)
	movestest.Force(w, w.conn, `UPDATE connectors SET last_sync_at = '2020-01-02 03:04:05+00'`)
	require.Contains(t, b.get("/").text, "2 Jan 2020 12:04 Asia/Tokyo")
	require.Contains(t, b.get("/?zone=UTC").text, "2 Jan 2020 03:04 UTC")
	require.Contains(t, b.get("/?zone=Europe/Berlin").text, "2 Jan 2020 04:04 Europe/Berlin")
	require.Contains(t, b.get("/?zone=Europe/Nowhere").text, "2 Jan 2020 12:04 Asia/Tokyo")
}

func TestAPageThatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	require.Equal(t, http.StatusNotFound, b.get("/nowhere").status)
	require.Equal(t, http.StatusNotFound, b.get("/sources/99999999999999").status)
	require.Equal(t, http.StatusNotFound, b.get("/sources/0").status)
}

func TestATokenIsShownOnceAlsoWhereItsFormIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	form := url.Values{"name": {hostile}, "role": {"user"}, "scopes": {"read", "operate"}, "days": {"7"}, "once": {"a-form"}}
	page := b.do("POST", "/tokens", form)
	require.Equal(t, http.StatusOK, page.status, page.text)
	made := regexp.MustCompile(`>(ems_[0-9]+_[0-9A-Za-z]+)</pre>`).FindStringSubmatch(page.text)
	require.Len(t, made, 2)
	w.harmless(page)
	require.Equal(t, http.StatusOK, caller{w, made[1]}.do("GET", "/me", nil).status)
	again := b.do("POST", "/tokens", form)
	require.Equal(t, http.StatusOK, again.status)
	require.NotContains(t, again.text, made[1])
	require.NotContains(t, b.get("/administration").text, made[1])
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM access_tokens WHERE scopes = '{read,operate}'`))
	id := one[int](w, `SELECT id FROM access_tokens WHERE scopes = '{read,operate}'`)
	require.Contains(t, b.do("POST", fmt.Sprintf("/tokens/%d/revoke", id), url.Values{}).text, "The token was revoked")
	require.Equal(t, http.StatusUnauthorized, caller{w, made[1]}.do("GET", "/me", nil).status)
	require.Equal(t, http.StatusForbidden, b.do("POST", "/tokens", url.Values{"role": {"admin"}, "scopes": {"read"}}).status)
	require.Equal(t, http.StatusUnprocessableEntity, b.do("POST", "/tokens", url.Values{"role": {"user"}}).status)
	require.Equal(t, http.StatusNotFound, b.do("POST", fmt.Sprintf("/tokens/%d/revoke", one[int](w, `SELECT 1000`)), url.Values{}).status)
}

func TestRunsProblemsAndAdministrationShowWhatSomebodyMaySee(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, others := w.something(identity.Ownership{UserID: 7, Scope: "user"}), w.something(identity.Ownership{UserID: 8, Scope: "user"})
	w.exec(`UPDATE connectors SET name = 'Mine' WHERE id = $1`, mine.id)
	w.exec(`UPDATE connectors SET name = 'Theirs' WHERE id = $1`, others.id)
	movestest.Force(w, w.conn, `INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, reason, error_message, config_version)
		SELECT gen_random_uuid(), c.id, 'web', 'manual', clock_timestamp(), clock_timestamp(), clock_timestamp(), 'failed', 'transient', 'https://x.example/' || n || ' answered 503', c.config_version
		FROM connectors c, generate_series(1, 3) n`)
	w.exec(`INSERT INTO resource_locks (key, epoch, run_id, connector_id, ttl, try_id, ask, acquired_at, expires_at)
		SELECT 'printer', 1, $1, $2, interval '1 hour', gen_random_uuid(), 1, clock_timestamp(), clock_timestamp() + interval '1 hour'`, others.run, others.id)
	me, admin, all := w.as(7, identity.User).signedIn(), w.as(7, identity.Admin).signedIn(), w.as(7, identity.Superadmin).signedIn()
	for _, path := range []string{"/runs", "/problems"} {
		require.Contains(t, me.get(path).text, "Mine")
		require.NotContains(t, me.get(path).text, "Theirs", path)
		require.Contains(t, all.get(path).text, "Theirs")
	}
	require.Contains(t, me.get("/problems").text, "<strong>3</strong>", "what differs by its address is one group")
	require.NotContains(t, me.get("/problems").text, "printer")
	require.Contains(t, admin.get("/problems").text, "a run that you do not see")
	require.Equal(t, http.StatusForbidden, admin.do("POST", "/locks/release", url.Values{"key": {"printer"}, "epoch": {"1"}}).status)
	require.Contains(t, all.do("POST", "/locks/release", url.Values{"key": {"printer"}, "epoch": {"1"}}).text, "The lock was taken")
	require.Equal(t, http.StatusForbidden, me.get("/audit").status)
	require.Equal(t, http.StatusOK, me.get(fmt.Sprintf("/audit?connector_id=%d", mine.id)).status)
	require.NotContains(t, me.get(fmt.Sprintf("/audit?connector_id=%d", others.id)).text, "connectors.create")
	require.Equal(t, http.StatusOK, all.get("/audit").status)
	require.Equal(t, http.StatusNotFound, me.do("POST", "/runs/"+others.run.String()+"/cancel", url.Values{}).status)
	require.Contains(t, me.do("POST", "/runs/"+mine.run.String()+"/cancel", url.Values{}).text, "The run was cancelled")
	for _, b := range []*browser{me, admin, all} {
		page := b.get("/administration")
		require.Equal(t, http.StatusOK, page.status)
		w.harmless(page)
		require.NotContains(t, b.get("/runs?status=NONE").text, "panic")
	}
}
