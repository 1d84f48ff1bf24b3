//go:build !race

package api_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestLimitsOfOwnersAreWrittenBySuperadminsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super, me := w.as(1, identity.Superadmin), w.as(7, identity.User)
	for _, c := range []caller{me, w.as(9, identity.Admin), w.as(1, identity.Superadmin, identity.Read, identity.Operate, identity.Write)} {
		c.refused(403, "forbidden", c.do("PUT", "/limits/7", map[string]any{"max_connectors": 1}))
		c.refused(403, "forbidden", c.do("DELETE", "/limits/0", nil, "If-Match", "*"))
	}
	super.refused(404, "not-found", super.do("GET", "/limits/7", nil))
	super.refused(404, "not-found", super.do("DELETE", "/limits/7", nil, "If-Match", "*"))
	super.refused(412, "precondition-failed", super.do("PUT", "/limits/7", map[string]any{}, "If-Match", "*"))
	made := super.do("PUT", "/limits/7", map[string]any{"max_connectors": 1, "max_documents": nil, "max_bytes": 0}, "Audit-Note", "asked for")
	require.Equal(t, http.StatusCreated, made.status, made.text)
	require.Equal(t, map[string]any{"user_id": 7., "max_connectors": 1., "max_concurrent_syncs": nil, "max_documents": nil, "max_bytes": 0.}, made.body)
	require.Equal(t, http.StatusCreated, me.do("POST", "/connectors", map[string]any{"name": "x", "type": "web", "refresh_freq_minutes": 60}).status)
	me.refused(422, "invalid", me.do("POST", "/connectors", map[string]any{"name": "y", "type": "web", "refresh_freq_minutes": 60}))

	super.refused(428, "precondition-required", super.do("PUT", "/limits/7", map[string]any{"max_connectors": 2}))
	super.refused(412, "precondition-failed", super.do("PUT", "/limits/7", map[string]any{"max_connectors": 2}, "If-None-Match", "*"))
	super.refused(412, "precondition-failed", super.do("PUT", "/limits/7", map[string]any{"max_connectors": 2}, "If-Match", `"2.null.null.0"`))
	changed := super.do("PUT", "/limits/7", map[string]any{"max_connectors": 2, "max_concurrent_syncs": 3}, "If-Match", made.header.Get("ETag"))
	require.Equal(t, []any{200, 2., 3., nil}, []any{changed.status, changed.body["max_connectors"], changed.body["max_concurrent_syncs"], changed.body["max_bytes"]}, changed.text)
	require.NotEqual(t, made.header.Get("ETag"), changed.header.Get("ETag"))
	require.Equal(t, http.StatusCreated, me.do("POST", "/connectors", map[string]any{"name": "y", "type": "web", "refresh_freq_minutes": 60}).status)
	require.Equal(t, changed.header.Get("ETag"), me.do("GET", "/limits/7", nil).header.Get("ETag"))
	me.refused(404, "not-found", me.do("GET", "/limits/8", nil))
	for field, r := range map[string]reply{
		"body.max_connectors":       super.do("PUT", "/limits/7", map[string]any{"max_connectors": -1}, "If-Match", "*"),
		"body.max_bytes":            super.do("PUT", "/limits/7", map[string]any{"max_bytes": 1 << 53}, "If-Match", "*"), // JavaScript rounds what is above it
		"body.max_documents":        super.do("PUT", "/limits/7", map[string]any{"max_documents": 1 << 53}, "If-Match", "*"),
		"body.max_concurrent_syncs": super.do("PUT", "/limits/0", map[string]any{"max_concurrent_syncs": 1}, "If-Match", "*"),
		"path.user_id":              super.do("PUT", "/limits/-1", map[string]any{}, "If-Match", "*"),
	} {
		super.refused(422, "invalid", r)
		require.Contains(t, r.text, `"field":"`+field+`"`)
	}
	super.refused(412, "precondition-failed", super.do("DELETE", "/limits/7", nil, "If-Match", made.header.Get("ETag")))
	require.Equal(t, http.StatusNoContent, super.do("DELETE", "/limits/7", nil, "If-Match", changed.header.Get("ETag")).status)
	require.Equal(t, "quotas.create user 1 asked for, quotas.update user 1, quotas.delete user 1",
		one[string](w, `SELECT string_agg(concat_ws(' ', action, person, note), ', ' ORDER BY id) FROM audit WHERE object_id = '7' AND action LIKE 'quotas.%'`))
}

func TestLimitsOfConcurrencyKeysAreWrittenBySuperadminsAndSeenByAdmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super, admin, me := w.as(1, identity.Superadmin), w.as(9, identity.Admin), w.as(7, identity.User)
	const path = "/limits/keys/onedrive:tenants%2F42"
	me.refused(403, "forbidden", me.do("GET", "/limits/keys", nil))
	admin.refused(403, "forbidden", admin.do("PUT", path, map[string]any{"most": 1}))
	admin.refused(403, "forbidden", admin.do("DELETE", path, nil, "If-Match", "*"))
	made := super.do("PUT", path, map[string]any{"most": 1})
	require.Equal(t, http.StatusCreated, made.status, made.text)
	require.Equal(t, []any{"onedrive:tenants/42", 1., 0., 0., "user 1"}, []any{made.body["key"], made.body["most"], made.body["held"], made.body["waiting"], made.body["updated_by"]})
	w.exec(`INSERT INTO key_places (key, run_id, connector_id, user_id) VALUES ('onedrive:tenants/42', gen_random_uuid(), 1, 1)`)
	listed := admin.get("/limits/keys")["limits"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"onedrive:tenants/42", 1.}, []any{listed["key"], listed["held"]})
	super.refused(428, "precondition-required", super.do("PUT", path, map[string]any{"most": 2}))
	super.refused(412, "precondition-failed", super.do("PUT", path, map[string]any{"most": 2}, "If-Match", `"1"`))
	changed := super.do("PUT", path, map[string]any{"most": 2}, "If-Match", made.header.Get("ETag"))
	require.Equal(t, []any{200, 2.}, []any{changed.status, changed.body["most"]}, changed.text)
	again := super.do("PUT", path, map[string]any{"most": 2}, "If-Match", changed.header.Get("ETag"))
	require.Equal(t, changed.header.Get("ETag"), again.header.Get("ETag"), "what changes nothing makes no version")
	for _, bad := range []string{"a%20b", "none", "https:%2F%2Fjoe:secret@host%2Fx", strings.Repeat("k", 129)} {
		r := super.do("PUT", "/limits/keys/"+bad, map[string]any{"most": 1})
		super.refused(422, "invalid", r)
		require.Contains(t, r.text, `"field":"path.key"`)
	}
	super.refused(422, "invalid", super.do("PUT", path, map[string]any{"most": 10001}, "If-Match", "*"))
	super.refused(422, "invalid", super.do("PUT", path, map[string]any{}, "If-Match", "*"))
	require.Equal(t, http.StatusNoContent, super.do("DELETE", path, nil, "If-Match", changed.header.Get("ETag")).status)
	super.refused(404, "not-found", super.do("DELETE", path, nil, "If-Match", "*"))
	admin.refused(404, "not-found", admin.do("GET", path, nil))
	require.Equal(t, "limits.create,limits.update,limits.delete", one[string](w, `SELECT string_agg(action, ',' ORDER BY id) FROM audit WHERE object_id = 'onedrive:tenants/42' AND user_id = 1`))
}

func TestLimitsAreWrittenAtThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	super, me := w.as(1, identity.Superadmin).signedIn(), w.as(7, identity.User).signedIn()
	require.NotContains(t, me.get("/administration").text, `action="/limits`)
	require.NotContains(t, w.as(9, identity.Admin).signedIn().get("/administration").text, `action="/limits`)
	require.Equal(t, http.StatusForbidden, me.do("POST", "/limits/owners", url.Values{"user_id": {"7"}, "max_connectors": {"9"}}).status)

	page := super.do("POST", "/limits/owners", url.Values{"user_id": {"7"}, "max_connectors": {"9"}, "max_bytes": {""}, "max_documents": {"0"}})
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Contains(t, page.text, "The limit was written.")
	require.Equal(t, "9 0", one[string](w, `SELECT concat_ws(' ', max_connectors, max_documents, max_bytes) FROM owner_quotas WHERE user_id = 7`))
	page = super.do("POST", "/limits/owners", url.Values{"user_id": {"7"}, "max_connectors": {"10"}})
	require.Equal(t, http.StatusPreconditionRequired, page.status, "who has not seen what stands replaces nothing")
	require.Contains(t, super.get("/administration").text, `href="/administration?owner=7#h-limit"`)
	form := super.get("/administration?owner=7").text
	require.Contains(t, form, `name="max_connectors" inputmode="numeric" pattern="[0-9]*" value="9"`)
	page = super.do("POST", "/limits/owners", url.Values{"user_id": {"7"}, "max_connectors": {"10"}, "version": {`"9.null.0.null"`}})
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Equal(t, "10", one[string](w, `SELECT concat_ws(' ', max_connectors, max_documents, max_bytes) FROM owner_quotas WHERE user_id = 7`))
	require.Equal(t, http.StatusUnprocessableEntity, super.do("POST", "/limits/owners", url.Values{"user_id": {"7"}, "max_connectors": {"many"}, "version": {"*"}}).status)
	page = super.do("POST", "/limits/owners/delete", url.Values{"user_id": {"7"}, "version": {`"10.null.null.null"`}})
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Zero(t, one[int](w, `SELECT count(*) FROM owner_quotas WHERE user_id = 7`))

	page = super.do("POST", "/limits/keys", url.Values{"key": {"a/b"}, "most": {"3"}})
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Contains(t, page.text, `href="/administration?key=a%2Fb#h-key"`)
	require.Equal(t, 3, one[int](w, `SELECT most FROM concurrency_limits WHERE key = 'a/b'`))
	require.Contains(t, super.get("/administration?key=a%2Fb").text, `name="most" inputmode="numeric" pattern="[0-9]+" required value="3"`)
	page = super.do("POST", "/limits/keys/delete", url.Values{"key": {"a/b"}, "version": {"*"}})
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Zero(t, one[int](w, `SELECT count(*) FROM concurrency_limits`))
}

func TestLimitsBeyondAPageAreOnFurtherPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO owner_quotas (user_id, max_connectors) SELECT n, n FROM generate_series(1001, 1120) n`)
	w.exec(`INSERT INTO concurrency_limits (key, most) SELECT 'key-' || n, 1 FROM generate_series(1001, 1120) n`)
	b := w.as(1, identity.Superadmin).signedIn()
	for section, name := range map[string]string{"h-limits": `<th scope="row">user (1\d{3})</th>`, "h-keys": `<th scope="row">key-(1\d{3})</th>`} {
		var shown []string
		next := regexp.MustCompile(`rel="next" href="([^"]+)#` + section + `"`)
		for path := "/administration"; path != ""; {
			page := b.get(path)
			require.Equal(t, http.StatusOK, page.status, page.text)
			for _, found := range regexp.MustCompile(name).FindAllStringSubmatch(page.text, -1) {
				shown = append(shown, found[1])
			}
			path = ""
			if found := next.FindStringSubmatch(page.text); found != nil {
				path = html.UnescapeString(found[1])
			} else {
				require.Regexp(t, `href="[^"]+#`+section+`">First page`, page.text)
			}
		}
		require.Len(t, shown, 120, section)
		require.Equal(t, "1120", shown[119])
	}
}
