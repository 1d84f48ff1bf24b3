//go:build !race

package api_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

var onceField = regexp.MustCompile(`name="once" value="([^"]+)"`)

// form is the form of a page with what it keeps for itself.
func (b *browser) form(path string, filled url.Values) url.Values {
	b.Helper()
	page := b.get(path)
	require.Equal(b, http.StatusOK, page.status, page.text)
	b.harmless(page)
	found := onceField.FindStringSubmatch(page.text)
	require.Len(b, found, 2)
	filled.Set("once", found[1])
	return filled
}

func TestASourceIsAddedOnThePageOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name) VALUES ('wiki')`)
	b := w.as(7, identity.User).signedIn()
	require.Contains(t, b.get("/").text, `href="/sources/add"`)
	for kind, one := range map[string]struct {
		filled url.Values
		row    string
	}{
		"web": {url.Values{"name": {"Handbook"}, "url": {" https://docs.example.org/ "}, "more": {`{"max_pages": 100}`}, "refresh_freq_minutes": {"60"}},
			`Handbook 7 user 60 {"url": "https://docs.example.org/", "max_pages": 100}`},
		"google_drive": {url.Values{"name": {"Plans"}, "folder_id": {"1a2b"}, "drive_id": {""}, "scope": {"user"}}, `Plans 7 user - {"folder_id": "1a2b"}`},
		"upload":       {url.Values{"name": {"Papers"}, "refresh_freq_minutes": {"0"}, "more": {`{"max_file_bytes": 1000}`}}, `Papers 7 user 0 {"url": "upload:", "max_file_bytes": 1000}`},
		"wiki":         {url.Values{"name": {"Wiki"}, "more": {`{"space": "x"}`}, "refresh_freq_minutes": {"0"}}, `Wiki 7 user 0 {"space": "x"}`},
	} {
		connectorType := kind
		if kind == "upload" {
			connectorType = "file"
		}
		filled := b.form("/sources/add?kind="+kind, one.filled)
		filled.Set("kind", kind)
		for range 2 {
			page := b.do("POST", "/sources/add", filled)
			require.Equal(t, http.StatusOK, page.status, page.text)
			require.Contains(t, page.text, "The source is added.")
			require.Equal(t, one.row, many(w, `SELECT name || ' ' || user_id || ' ' || scope || ' ' || CASE WHEN type = 'google_drive' THEN '-' ELSE refresh_freq_minutes::text END || ' ' || config::text
				FROM connectors WHERE type = $1`, connectorType))
			require.Equal(t, fmt.Sprintf("/sources/%s", many(w, `SELECT id::text FROM connectors WHERE type = $1`, connectorType)), page.at.Path)
		}
	}
}

// many are the rows of a question for a text, with lines between them.
func many(w *world, sql string, args ...any) string {
	w.Helper()
	return one[string](w, `SELECT coalesce(string_agg(t.t, E'\n'), '') FROM (`+sql+`) t(t)`, args...)
}

func TestWhatIsWrongWithANewSourceIsSaidBesideItsFieldAndTheRestIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	for says, change := range map[string]url.Values{
		"must be a JSON object, such as":                        {"more": {"max_pages"}},
		"url is said already: leave it out here":                {"more": {`{"url": "x"}`}},
		"must be a whole number":                                {"refresh_freq_minutes": {"hourly"}},
		"You may not add this connector: a user adds their own": {"scope": {"org"}},
		"expected number >= 0":                                  {"refresh_freq_minutes": {"-1"}},
		"expected length >= 1":                                  {"name": {""}},
		`such as {"max_file_bytes`:                              {"more": {"null"}},
	} {
		filled := b.form("/sources/add?kind=web", url.Values{"kind": {"web"}, "name": {hostile}, "url": {"https://docs.example.org/" + hostile}})
		for name, value := range change {
			filled[name] = value
		}
		page := b.do("POST", "/sources/add", filled)
		require.Contains(t, []int{http.StatusUnprocessableEntity, http.StatusForbidden}, page.status, says)
		require.Contains(t, page.text, html.EscapeString(says))
		require.NotContains(t, page.text, "<script>alert")
		require.Contains(t, page.text, "https://docs.example.org/&lt;script&gt;")
		require.NotContains(t, page.text, filled.Get("once"), "what is corrected is another request")
		w.harmless(page)
	}
	require.Zero(t, one[int](w, `SELECT count(*) FROM connectors`))
	require.Equal(t, http.StatusNotFound, b.get("/sources/add?kind=wordcount").status)
	require.NotContains(t, b.get("/sources/add").text, `value="org"`)
	require.Contains(t, w.as(1, identity.Superadmin).signedIn().get("/sources/add").text, `value="org"`)
}

func TestANumberOfASourceIsAddedOnThePageAsItWasWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	config := `{"url": "https://example.org/", "team": 9007199254740993, "share": 0.12345678901234567890}`
	made := me.do("POST", "/connectors", `{"name": "by REST", "type": "web", "config": `+config+`}`)
	require.Equal(t, http.StatusCreated, made.status, made.text)
	b := me.signedIn()
	page := b.do("POST", "/sources/add", b.form("/sources/add?kind=web", url.Values{"name": {"on the page"}, "url": {"https://example.org/"}, "more": {`{"team": 9007199254740993, "share": 0.12345678901234567890}`}}))
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Equal(t, one[string](w, `SELECT config::text FROM connectors WHERE name = 'by REST'`), one[string](w, `SELECT config::text FROM connectors WHERE name = 'on the page'`))
}
