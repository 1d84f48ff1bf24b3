package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"

	"github.com/echomind/sync/services/chunker/crawl"
)

func TestASiteIsReadWithinItsHost(t *testing.T) {
	other := newSite(t).page("/", "other")
	s := newSite(t).page("/", "home", "/a", "b?x=1#part", other.URL+"/").page("/a", "A", "/").page("/b?x=1", "B")
	st := newStore()
	res := crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/a", "/b?x=1"}, st.ids(s))
	require.Equal(t, crawl.Result{Start: s.URL + "/", Stored: 3}, res)
	require.Zero(t, other.total())
	doc := st.docs[s.URL+"/"]
	require.Equal(t, "home", doc.Title)
	require.Equal(t, s.URL+"/", doc.URL)
	require.Equal(t, "text/html", doc.MediaType)
	require.Equal(t, "home", st.text(s.URL+"/"))
	require.Equal(t, []string{s.URL + "/a", s.URL + "/b?x=1"}, doc.Links)
	require.Equal(t, "{}", doc.VersionToken)
	require.Len(t, doc.ContentHash, 64)
}

func TestMaxDepthCountsLinksFromTheStartPage(t *testing.T) {
	s := newSite(t).page("/", "0", "/1").page("/1", "1", "/2").page("/2", "2", "/3").page("/3", "3", "/4").page("/4", "4")
	for depth, want := range map[int]int{0: 1, 1: 2, 2: 3, 20: 5} {
		st := newStore()
		crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(depth) })
		require.Len(t, st.docs, want, "depth %d", depth)
	}
	st := newStore()
	crawlOK(t, s, st)
	require.Len(t, st.docs, 4, "the default is 3")
}

func TestMaxPagesKeepsTheSamePagesEachTime(t *testing.T) {
	s := newSite(t)
	var first []string
	for i := range 20 {
		first = append(first, fmt.Sprintf("/%d", i))
		s.page(fmt.Sprintf("/%d", i), fmt.Sprint(i), fmt.Sprintf("/%d/below", i)).page(fmt.Sprintf("/%d/below", i), fmt.Sprint("below", i))
	}
	s.page("/", "home", first...)
	limit := func(c *crawl.Config, _ *crawl.Options) { c.MaxPages = ptr(25) }
	var want []string
	for range 3 {
		st := newStore()
		res := crawlOK(t, s, st, limit)
		require.True(t, res.Truncated)
		require.Equal(t, "the site has more than the 25 documents of max_pages: raise it (at most 50000), or crawl less of the site "+
			"(path_prefix, ignore_query, max_depth), or give its parts connectors of their own, each with a path_prefix", res.Bound)
		require.Len(t, st.put, 25)
		if want == nil {
			want = paths(s, st.put)
			require.Equal(t, append([]string{"/"}, first...), want[:21], "breadth first")
			require.Equal(t, []string{"/0/below", "/1/below", "/2/below", "/3/below"}, want[21:])
		}
		require.Equal(t, want, paths(s, st.put))
	}
}

func TestPathPrefixIsNotLeft(t *testing.T) {
	s := newSite(t).page("/docs/", "docs", "a", "/docs2/x", "/", "../docs/b", "/docs").page("/docs/a", "a").page("/docs/b", "b").
		page("/docs", "d").page("/docs2/x", "x").page("/", "home")
	st := newStore()
	crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.URL = s.URL + "/docs/"; c.PathPrefix = "/docs" })
	require.Equal(t, []string{"/docs", "/docs/", "/docs/a", "/docs/b"}, st.ids(s))
}

func TestQueriesAreKeptUnlessIgnored(t *testing.T) {
	s := newSite(t).page("/", "home", "/a?x=1", "/a?x=2", "/a?utm_source=mail", "/a").page("/a", "A")
	st := newStore()
	crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/a", "/a?x=1", "/a?x=2"}, st.ids(s))
	st = newStore()
	crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.IgnoreQuery = true })
	require.Equal(t, []string{"/", "/a"}, st.ids(s))
}

func TestARedirectThatAddsAQueryKeepsOneIdentityWhereQueriesAreIgnored(t *testing.T) {
	n := 0
	s := newSite(t).page("/", "home", "/a").page("/b", "B").on("/a", func(w http.ResponseWriter, r *http.Request) {
		n++
		http.Redirect(w, r, fmt.Sprintf("/b?session=%d", n), http.StatusFound)
	})
	st := newStore()
	ignore := func(c *crawl.Config, _ *crawl.Options) { c.IgnoreQuery = true }
	crawlOK(t, s, st, ignore)
	require.Equal(t, []string{"/", "/b"}, st.ids(s))
	crawlOK(t, s, st, ignore)
	require.Equal(t, 2, st.unchanged)
}

func TestASpiderTrapEnds(t *testing.T) {
	s := newSite(t)
	s.on("*", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("X-Robots-Tag", "noindex")
		for i := range 50 {
			_, _ = fmt.Fprintf(w, "<a href='%s/%d'>", strings.TrimSuffix(r.URL.Path, "/"), i)
		}
	})
	s.status("/robots.txt", 404)
	st := newStore()
	res := crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth, c.MaxPages = ptr(20), ptr(10) })
	require.True(t, res.Truncated)
	require.LessOrEqual(t, s.total(), 4*10+100+1)
	require.Empty(t, st.docs)
}

func TestACanonicalLinkJoinsDuplicates(t *testing.T) {
	s := newSite(t).page("/", "home", "/a?sort=1", "/a?sort=2", "/other").page("/a", "A").page("/b", "B")
	s.html("/a?sort=1", `<link rel=canonical href="/a"><main>sorted</main><a href=/b>`)
	s.html("/a?sort=2", `<link rel="canonical" href="/a"><main>sorted</main>`)
	s.html("/other", `<link rel=canonical href="https://elsewhere.example/"><main>other</main>`)
	st := newStore()
	res := crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/a", "/b", "/other"}, st.ids(s))
	require.Equal(t, "A", st.text(s.URL+"/a"))
	require.Equal(t, 2, res.Skipped)
	require.Equal(t, 1, s.requests("/a"))
}

func TestAPageStandsForItselfWhereItsCanonicalComesToNothing(t *testing.T) {
	s := newSite(t).page("/", "home", "/p", "/q", "/r", "/s", "/t1").robots("User-agent: *\nDisallow: /secret")
	s.html("/p", `<link rel=canonical href="/missing"><main>P</main>`)
	s.html("/q", `<link rel=canonical href="/back"><main>Q</main>`).redirect("/back", "/q", 301)
	s.html("/r", `<link rel=canonical href="/secret"><main>R</main>`)
	s.html("/s", `<link rel=canonical href="/t"><main>S</main>`).html("/t", `<link rel=canonical href="/s"><main>T</main>`)
	s.html("/t1", `<link rel=canonical href="/t1"><main>self</main>`)
	st := newStore()
	crawlOK(t, s, st)
	ids := st.ids(s)
	for _, want := range []string{"/", "/p", "/q", "/r", "/t1"} {
		require.Contains(t, ids, want)
	}
	require.Len(t, ids, 6, "of two pages that name each other one is stored: %v", ids)
	require.NotContains(t, ids, "/back")
	st2 := newStore()
	crawlOK(t, s, st2)
	require.Equal(t, st.put, st2.put)
}

func TestTheStartPagesCanonicalIsReadEvenAtDepthZero(t *testing.T) {
	s := newSite(t).html("/index.html", `<link rel=canonical href="/"><main>x</main>`).page("/", "home")
	st := newStore()
	crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) {
		c.URL += "index.html"
		c.MaxDepth, c.MaxPages = ptr(0), ptr(1)
	})
	require.Equal(t, []string{"/"}, st.ids(s))
}

func TestNoindexAndNofollowAreObeyed(t *testing.T) {
	s := newSite(t).page("/", "home", "/noindex", "/nofollow", "/none", "/header", "/forus", "/forothers", "/valued")
	s.html("/noindex", `<meta name=robots content="noindex, follow"><main>x</main><a href=/via-noindex>`).page("/via-noindex", "x")
	s.html("/nofollow", `<meta name="ROBOTS" content="NOFOLLOW"><main>x</main><a href=/via-nofollow>`).page("/via-nofollow", "x")
	s.html("/none", `<meta name=robots content=none><a href=/via-none>`).page("/via-none", "x")
	header := func(tag string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("X-Robots-Tag", tag)
			_, _ = w.Write([]byte("<main>x</main>"))
		}
	}
	s.on("/header", header("noindex")).on("/forus", header("EchoMindSync: noindex")).on("/forothers", header("otherbot: noindex"))
	s.on("/valued", header("max-snippet:10, noindex"))
	st := newStore()
	res := crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/forothers", "/nofollow", "/via-noindex"}, st.ids(s))
	require.Equal(t, 5, res.Skipped)
}

func TestAPageThatTurnsNoindexIsDeleted(t *testing.T) {
	s := newSite(t).page("/", "home", "/a").page("/a", "A")
	st := newStore()
	crawlOK(t, s, st)
	s.html("/a", `<meta name=robots content=noindex><main>A</main>`)
	crawlOK(t, s, st)
	require.Equal(t, []string{"/a"}, paths(s, st.deleted))
}

func TestAStoreThatFailsEndsTheCrawlWithItsError(t *testing.T) {
	for _, call := range []string{"known", "put", "touch", "delete", "links"} {
		t.Run(call, func(t *testing.T) {
			s := newSite(t).page("/", "home", "/a", "/b", "/c").page("/a", "A").page("/b", "B").page("/c", "C")
			st := newStore()
			crawlOK(t, s, st)
			s.page("/", "home", "/a", "/c").page("/c", "changed")
			s.remove("/c")
			s.page("/a", "changed")
			st.failOn = call
			_, err := crawlSite(t, s, st)
			require.Same(t, errStore, err)
		})
	}
}

func TestACrawlThatIsStoppedSaysSoAndDeletesNothing(t *testing.T) {
	s := newSite(t).page("/", "home", "/a", "/b").page("/a", "A").page("/b", "B")
	st := newStore()
	crawlOK(t, s, st)
	ctx, cancel := context.WithCancelCause(t.Context())
	fenced := errors.New("fenced")
	s.on("/a", func(_ http.ResponseWriter, r *http.Request) { cancel(fenced); <-r.Context().Done() })
	s.page("/", "home", "/a")
	st.forget()
	_, err := crawl.Crawl(ctx, crawl.Config{URL: s.URL}, options(t), st)
	require.ErrorIs(t, err, fenced)
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.Empty(t, st.deleted)
	require.NotContains(t, st.put, s.URL+"/a")
}

func TestAPanicInExtractionFailsThePage(t *testing.T) {
	s := newSite(t).page("/", "home", "/a").page("/a", "poison")
	st := newStore()
	crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) {
		o.Extract = func(ctx context.Context, body []byte, contentType, url string) (worker.Document, error) {
			if strings.Contains(string(body), "poison") {
				panic("index out of range")
			}
			return extractMain(ctx, body, contentType, url)
		}
	})
	require.Equal(t, "extracting the content panicked: index out of range", st.docs[s.URL+"/a"].Err)
}

func TestExtractIsRequired(t *testing.T) {
	_, err := crawl.Crawl(t.Context(), crawl.Config{URL: "http://example.com"}, crawl.Options{}, newStore())
	require.ErrorContains(t, err, "Extract is missing")
}

var _ crawl.Sink = (*store)(nil)
