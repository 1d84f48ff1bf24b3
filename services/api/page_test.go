//go:build !race

package api_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

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

func TestSourcesOfOneGroupAreShownByAFilterThatTheFormHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(1, identity.Superadmin).signedIn()
	w.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ('law', 'web', 7, 'group', 'legal'), ('art', 'web', 7, 'group', 'design')`)
	page := b.get("/?scope_id=legal").text
	require.Contains(t, page, `name="scope_id" value="legal"`, "no filter is hidden")
	require.Contains(t, page, ">law<")
	require.NotContains(t, page, ">art<")
	require.Contains(t, b.get("/?scope=group").text, `name="scope_id" value=""`)
	require.NotContains(t, b.get("/?scope=org").text, `name="scope_id"`)
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

func TestASlotSaysWhatBecomesOfItByPictureAndWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, schedule_cron, once_per) VALUES ('x', 'web', 7, '0 * * * *', 'day') RETURNING id`)
	page := w.as(7, identity.User).signedIn().get(fmt.Sprintf("/sources/%d", id)).text
	for _, verdict := range []string{`#i-syncing"/></svg>runs`, `#i-skipped"/></svg>skipped × `} {
		require.Contains(t, page, `<span class="verdict"><svg class="icon" aria-hidden="true"><use href="`+verdict)
	}
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
	movestest.Force(w, w.conn, `UPDATE connectors SET status = 'ACTIVE', needs_plan = false, next_sync_at = clock_timestamp() + interval '3 hours', due_reason = 'schedule'`)
	own, _ := time.Now().Zone()
	require.Regexp(t, `it is not due before [^<]*[0-9]{2}:[0-9]{2}(:[0-9]{2})? `+regexp.QuoteMeta(own), b.get("/?zone=Asia/Tokyo").text, "a sentence says in which zone")
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
	form := url.Values{"name": {hostile}, "role": {"user"}, "scopes": {"read", "operate"}, "once": {"a-form"}}
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
	w.exec(`INSERT INTO connector_types (name, max_concurrent_syncs) VALUES ('wiki', 0)`)
	for _, b := range []*browser{me, admin, all} {
		page := b.get("/administration")
		require.Contains(t, page.text, "no bound")
		require.NotContains(t, page.text, "at most 0")
		require.Equal(t, http.StatusOK, page.status)
		w.harmless(page)
		require.NotContains(t, b.get("/runs?status=NONE").text, "panic")
	}
}

// What a form was sent to is no page that can be asked for: what its answer links to, and leads back to, is one.
func TestLinksOfAPageThatAnswersAFormLeadSomewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	for path, form := range map[string]url.Values{
		"/tokens":        {"name": {"x"}, "role": {"user"}, "scopes": {"read"}},
		"/problems/sync": {},
		fmt.Sprintf("/sources/%d/schedule", c.id): {"schedule_cron": {"every day"}},
		fmt.Sprintf("/sources/%d/disable", c.id):  {},
	} {
		page := b.do("POST", path, form)
		found := regexp.MustCompile(`href="(/[^"]*)"`).FindAllStringSubmatch(page.text, -1)
		require.NotEmpty(t, found, path)
		for _, link := range found {
			require.Equal(t, http.StatusOK, b.get(html.UnescapeString(link[1])).status, "%s links to %s", path, link[1])
		}
		for _, back := range regexp.MustCompile(`name="back" value="([^"]*)"`).FindAllStringSubmatch(page.text, -1) {
			require.Equal(t, http.StatusOK, b.get(html.UnescapeString(back[1])).status, "%s leads back to %s", path, back[1])
		}
	}
}

func TestWhoPressesAgainAfterAScheduleWasChangedByOthersSavesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('x', 'web', 7, 60) RETURNING id`)
	path := fmt.Sprintf("/sources/%d/schedule", id)
	version := regexp.MustCompile(`name="version" value="([^"]+)"`)
	shown := html.UnescapeString(version.FindStringSubmatch(b.get(path).text)[1])
	w.exec(`UPDATE connectors SET refresh_freq_minutes = 90 WHERE id = $1`, id)
	late := b.do("POST", path, url.Values{"version": {shown}, "refresh_freq_minutes": {"30"}})
	require.Equal(t, http.StatusPreconditionFailed, late.status)
	again := html.UnescapeString(version.FindStringSubmatch(late.text)[1])
	require.Equal(t, http.StatusOK, b.do("POST", path, url.Values{"version": {again}, "refresh_freq_minutes": {"30"}}).status)
	require.Equal(t, int32(30), one[int32](w, `SELECT refresh_freq_minutes FROM connectors WHERE id = $1`, id))
}

func TestAPathThatLeadsUpIsNotSaidToBeDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	page := b.do("POST", "/runs/%2e%2e/cancel", url.Values{})
	require.NotContains(t, page.text, "The run was cancelled")
	require.NotEqual(t, http.StatusOK, page.status)
}

func TestALongAddressIsRefusedInAShortPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.as(7, identity.User).signedIn().get("/?x=" + strings.Repeat("y", 30_000))
	require.Equal(t, http.StatusUnprocessableEntity, page.status)
	require.Less(t, len(page.text), 30_000)
}

func TestWhetherASourceIsAsFreshAsItMustBeIsShownWhereSomebodyHasSaidSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) VALUES ('x', 'web', 7, 60) RETURNING id`)
	pages := []string{"/", fmt.Sprintf("/sources/%d", id)}
	shows := func(word string, limit string) {
		t.Helper()
		for _, path := range pages {
			require.Contains(t, b.get(path).text, "</svg>"+word+"</span>", path)
			require.Contains(t, b.get(path).text, "may be "+limit+" old", path)
		}
	}
	for _, path := range pages {
		require.NotContains(t, b.get(path).text, "may be ", path)
	}
	w.exec(`UPDATE connectors SET fresh_within_minutes = 120`)
	shows("Never synced", "2 hours")
	w.exec(`UPDATE connectors SET fresh_within_minutes = 1`)
	shows("Never synced", "1 minute")
	w.exec(`UPDATE connectors SET fresh_within_minutes = 120`)
	movestest.Force(w, w.conn, `UPDATE connectors SET last_sync_at = clock_timestamp() - interval '3 hours', synced_version = config_version`)
	shows("Late", "2 hours")
	w.exec(`INSERT INTO connectors (name, type, user_id, fresh_within_minutes) VALUES ('new one', 'web', 7, 2), ('free', 'web', 7, NULL)`)
	require.Len(t, w.as(7, identity.User).get("/connectors?late=true")["connectors"], 1)
	require.Contains(t, b.get("/?late=true").text, fmt.Sprintf(`href="/sources/%d"`, id))
	require.NotContains(t, b.get("/?late=true").text, "new one")
	movestest.Force(w, w.conn, `UPDATE connectors SET created_at = clock_timestamp() - interval '2 minutes', fresh_within_minutes = fresh_within_minutes - 1 WHERE name <> 'x'`)
	require.Len(t, w.as(7, identity.User).get("/connectors?late=true")["connectors"], 2)
	require.NotContains(t, b.get("/?late=true").text, ">free<")
	w.exec(`DELETE FROM connectors WHERE name <> 'x'`)
	w.exec(`UPDATE connectors SET fresh_within_minutes = 2880`)
	shows("Fresh", "2 days")
}

func TestARunThatWasSentToWorkersMoreThanOnceSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, c := w.as(7, identity.User).signedIn(), w.something(identity.Ownership{UserID: 7, Scope: "user"})
	path := fmt.Sprintf("/sources/%d", c.id)
	require.NotContains(t, b.get(path).text, "sent to workers")
	w.exec(`UPDATE open_runs SET dispatches = 3 WHERE id = $1`, c.run)
	require.Contains(t, b.get(path).text, "sent to workers 3 times")
}
