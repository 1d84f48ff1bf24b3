//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

// weblinks are the links of hits to where their documents are.
var weblinks = regexp.MustCompile(`<a href="([^"]*)" rel="noopener noreferrer nofollow">`)

// inside is a page without these.
func inside(page shown) shown {
	page.text = weblinks.ReplaceAllString(page.text, "<a>")
	return page
}

func TestASearchOnThePageIsAFormWhoseFiltersAreInTheAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, all := w.source("Mine", identity.Ownership{UserID: 7, Scope: "user"}), w.source("Everybodys", identity.Ownership{UserID: 8, Scope: "org"})
	w.source("Theirs", identity.Ownership{UserID: 8, Scope: "user"})
	w.stores(mine, "a", "Of mine", "https://h.example/a?b=1", "the zebra runs")
	w.stores(all, "b", "", "", "the zebra stands")
	b := w.as(7, identity.User).signedIn()
	form := b.get("/search")
	require.Equal(t, http.StatusOK, form.status)
	require.Contains(t, form.text, `action="/search"`)
	require.Contains(t, form.text, `aria-current="page">Search</a>`)
	require.NotContains(t, form.text, "Theirs")
	w.harmless(form)
	found := b.get("/search?q=zebra")
	w.harmless(inside(found))
	require.Contains(t, found.text, `<a href="https://h.example/a?b=1" rel="noopener noreferrer nofollow"><bdi>Of mine</bdi></a>`)
	require.Contains(t, found.text, "the <mark>zebra</mark> runs")
	require.Contains(t, found.text, fmt.Sprintf(`href="/sources/%d"`, mine))
	require.Contains(t, found.text, `<h2><bdi>b</bdi></h2>`, "what has no title is called as in its source")
	require.Contains(t, found.text, `value="zebra"`)
	in := b.get(fmt.Sprintf("/search?q=zebra&source=%d", all))
	require.NotContains(t, in.text, "Of mine")
	require.Contains(t, in.text, fmt.Sprintf(`<option value="%d" selected>Everybodys`, all))
	require.Contains(t, in.text, `<a href="/search?q=zebra">Search everything</a>`)
	both := b.get(fmt.Sprintf("/search?q=zebra&source=%d&source=%d", all, mine))
	require.Contains(t, both.text, "Of mine")
	require.Contains(t, both.text, " multiple ")
	require.NotContains(t, b.get("/search?q=zebra&scope=org").text, "Of mine")
	require.Contains(t, b.get("/search?q=zebra&scope=org").text, `<option value="org" selected>`)
	require.Contains(t, b.get("/search?q=zebra&zone=Europe/Berlin").text, "Europe/Berlin")
	require.Equal(t, http.StatusUnprocessableEntity, b.get("/search?q=zebra&scope=none").status)
	require.Equal(t, http.StatusUnprocessableEntity, b.get("/search?q=zebra&source=x").status)
	for _, unreadable := range []string{"source=%zz", "source=1;", "scope=org;"} {
		require.Equal(t, http.StatusUnprocessableEntity, b.get("/search?q=zebra&"+unreadable).status, unreadable)
	}
	require.Equal(t, http.StatusUnauthorized, w.browser().get("/search?q=zebra").status)
}

func TestWhatADocumentHasInItIsShownAsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.source(hostile, identity.Ownership{UserID: 7, Scope: "user"})
	evil := hostile + " zebra \u202egnol\u2066\u200f \u0007" + hostile + "zebra</mark><mark>"
	for name, address := range map[string]string{
		"1": "javascript:alert(1)", "2": " javascript:alert(1)", "3": "data:text/html,<script>alert(1)</script>", "4": "file:///etc/passwd", "5": "//evil.example/", "6": "https:evil.example", "7": "vbscript:x",
		"8": "java\nscript:alert(1)", "9": "https://", "10": "https://h.example/\"><script>alert(1)</script>", "11": "https://h.example@evil.example/",
	} {
		w.stores(id, name+hostile, evil, address, evil)
	}
	w.stores(id, "long", strings.Repeat("zebra", 10_000), "", strings.Repeat("zebra", 13_107))
	b := w.as(7, identity.User).signedIn()
	for _, path := range []string{"/search?q=zebra", "/search?q=" + url.QueryEscape(hostile), fmt.Sprintf("/search?q=zebra&source=%d", id), "/search?q=" + url.QueryEscape(hostile+" nothing"),
		"/search?q=zebra&scope=" + url.QueryEscape(hostile), "/search?q=zebra&source=" + url.QueryEscape(hostile)} {
		page := b.get(path)
		require.Less(t, page.status, 500, page.text)
		for _, never := range []string{"<script>alert", "<img", "\u202e", "\u2066", "\u200f", "\u0007"} {
			require.NotContains(t, page.text, never, path)
		}
		for _, link := range weblinks.FindAllStringSubmatch(page.text, -1) {
			require.Regexp(t, `^https://h\.example/`, link[1], path)
		}
		require.NotRegexp(t, `href="[^"]*(script|data|file):`, page.text)
		w.harmless(inside(page))
		require.Less(t, len(page.text), 200_000)
	}
	require.Contains(t, b.get("/search?q=zebra").text, "&lt;script&gt;alert(1)")
}

func TestASearchThatFindsNothingSaysWhereAndWhatCouldBeDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as(7, identity.User).signedIn()
	require.Contains(t, b.get("/search?q=zebra").text, "You see no sources yet")
	first := w.source("First", identity.Ownership{UserID: 7, Scope: "user"})
	w.source("Second", identity.Ownership{UserID: 7, Scope: "user"})
	synced := w.source("Synced", identity.Ownership{UserID: 7, Scope: "user"})
	w.source("Theirs", identity.Ownership{UserID: 8, Scope: "user"})
	movestest.Force(w, w.conn, `UPDATE connectors SET last_sync_at = clock_timestamp(), synced_version = config_version WHERE name = 'Synced'`)
	page := b.get("/search?q=zebra")
	w.harmless(page)
	require.Contains(t, page.text, "Nothing was found for <strong><bdi>zebra</bdi></strong> in 3 sources that you see")
	require.Contains(t, page.text, "2 of them have never synced")
	require.Contains(t, page.text, fmt.Sprintf(`<a href="/sources/%d"><bdi>First</bdi></a>`, first))
	require.NotContains(t, page.text, "Theirs")
	one := b.get(fmt.Sprintf("/search?q=zebra&source=%d", synced))
	require.Contains(t, one.text, "in 1 source that is chosen here")
	require.NotContains(t, one.text, "never synced")
	require.Contains(t, one.text, `<a href="/search?q=zebra">search everything</a>`)
}

func TestAHitOnThePageSaysHowFreshItsSourceIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.source("Notes", identity.Ownership{UserID: 7, Scope: "user"})
	w.stores(id, "a", "", "", "the zebra runs")
	b := w.as(7, identity.User).signedIn()
	shows := func(word, how string) {
		t.Helper()
		page := b.get("/search?q=zebra")
		require.Contains(t, page.text, "</svg>"+word+"</span> <span>"+how)
	}
	shows("Never synced", "no sync has completed")
	w.exec(`UPDATE connectors SET fresh_within_minutes = 60`)
	movestest.Force(w, w.conn, `UPDATE connectors SET last_sync_at = clock_timestamp() - interval '2 hours', synced_version = config_version`)
	shows("Late", "last synced 2")
	w.exec(`UPDATE connectors SET fresh_within_minutes = 600`)
	shows("Fresh", "last synced 2")
}
