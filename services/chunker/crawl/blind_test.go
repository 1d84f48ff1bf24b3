//go:build !race

package crawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
)

func TestANewPageThatFailsHoldsDeletionsBackOnce(t *testing.T) {
	s := newSite(t).page("/", "home", "/old").redirect("/old", "/hub", 301).page("/hub", "hub", "/a").page("/a", "A")
	st := newStore()
	crawlOK(t, s, st)
	s.status("/old", 500)
	res := crawlOK(t, s, st)
	require.Empty(t, st.deleted, "a redirect that fails must not make its target look gone")
	require.Equal(t, 2, res.Held)
	require.Equal(t, 1, res.Failed)
	res = crawlOK(t, s, st)
	require.Equal(t, []string{"/a", "/hub"}, paths(s, st.deleted))
	require.Zero(t, res.Held)
}

func TestAPageThatRedirectsToANewOneThatFailsIsKeptOnce(t *testing.T) {
	s := newSite(t).page("/", "home", "/a").page("/a", "A")
	st := newStore()
	crawlOK(t, s, st)
	s.redirect("/a", "/b", 301).status("/b", 503)
	crawlOK(t, s, st)
	require.Equal(t, "A", st.text(s.URL+"/a"))
	crawlOK(t, s, st)
	require.Equal(t, []string{"/a"}, paths(s, st.deleted))
}

func TestACrawlThatDoesNotCompleteSpendsNoGraceOfANewPage(t *testing.T) {
	for name, ends := range map[string]func(s *site, st *store, home func()) error{
		"killed": func(s *site, st *store, _ func()) error {
			st.failOn = "delete"
			defer func() { st.failOn = "" }()
			s.status("/gone", 404)
			_, err := crawlSite(t, s, st)
			return err
		},
		"site down": func(s *site, st *store, home func()) error {
			for _, p := range []string{"/1", "/2", "/3"} {
				s.status(p, 503)
			}
			s.onceThen("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
			_, err := crawlSite(t, s, st, func(_ *crawl.Config, o *crawl.Options) { o.MaxSilence = 3 })
			home()
			s.page("/1", "1").page("/2", "2").page("/3", "3")
			return err
		},
	} {
		s := newSite(t).page("/", "home", "/old-hub", "/gone").page("/gone", "gone").page("/old-hub", "hub", "/a", "/b").page("/a", "A").page("/b", "B")
		st := newStore()
		crawlOK(t, s, st)
		home := func() { s.page("/", "home", "/new-hub", "/gone", "/1", "/2", "/3") }
		home()
		s.status("/new-hub", 500).remove("/old-hub")
		require.Error(t, ends(s, st, home), name)
		crawlOK(t, s, st)
		require.NotContains(t, st.deleted, s.URL+"/a", name)
		require.Contains(t, st.docs[s.URL+"/new-hub"].Err, "500", name)
		crawlOK(t, s, st)
		require.Contains(t, st.deleted, s.URL+"/a", "%s: it was kept by a crawl that completed", name)
	}
}

// refused is the stored state of a document that the store had no room for, or gave up: its links may be those of an earlier
// text.
func (st *store) refused(id string) {
	st.docs[id] = worker.Document{SourceID: id, Err: "no room for it", Links: st.docs[id].Links}
}

func TestWhatIsBehindAPageThatTheStoreRefusedIsKeptUntilItIsReadOrFailsForLong(t *testing.T) {
	for _, status := range []int{503, 403, 204} {
		s := newSite(t).page("/", "home", "/hub").page("/hub", "hub", "/a").page("/a", "A").page("/b", "B")
		st := newStore()
		crawlOK(t, s, st)
		s.page("/hub", "hub", "/a", "/b")
		crawlOK(t, s, st)
		hub := s.URL + "/hub"
		st.docs[hub] = worker.Document{SourceID: hub, Err: "no room for it", Links: []string{s.URL + "/a"}} // with /b it would be too much

		s.status("/hub", status)
		for range crawl.MaxHeldCrawls {
			res := crawlOK(t, s, st)
			require.Empty(t, st.deleted, "answers %d", status)
			require.Equal(t, 1, res.Held)
			require.Contains(t, st.docs[hub].Err, fmt.Sprint(status))
			require.Equal(t, []string{s.URL + "/a"}, st.docs[hub].Links)
		}
		s.page("/hub", "hub", "/a", "/b")
		crawlOK(t, s, st)
		require.Equal(t, []string{"/", "/a", "/b", "/hub"}, st.ids(s))
		require.Empty(t, st.deleted)

		st.docs[hub] = worker.Document{SourceID: hub, Err: "no room for it", Links: []string{s.URL + "/a"}}
		s.status("/hub", status)
		for range crawl.MaxHeldCrawls {
			crawlOK(t, s, st)
		}
		crawlOK(t, s, st)
		require.Equal(t, []string{"/b"}, paths(s, st.deleted), "it has failed for long")
		crawlOK(t, s, st)
		require.Empty(t, st.put, "the failure is stored")
	}
}

func TestARefusedPageThatIsReadHoldsNothingBack(t *testing.T) {
	s := newSite(t).page("/", "home", "/hub", "/old").page("/hub", "hub", "/a").page("/a", "A").page("/old", "old")
	st := newStore()
	crawlOK(t, s, st)
	s.page("/", "home", "/hub")
	st.refused(s.URL + "/hub")
	res := crawlOK(t, s, st)
	require.Equal(t, []string{"/old"}, paths(s, st.deleted))
	require.Zero(t, res.Held)
}

// withoutRoom is a store at a full quota: of pages below /p it stores only the links.
type withoutRoom struct{ *store }

func (s withoutRoom) Put(ctx context.Context, d worker.Document) error {
	if err := s.store.Put(ctx, d); err != nil || d.Err != "" || !strings.Contains(d.SourceID, "/p") {
		return err
	}
	s.refused(d.SourceID)
	return nil
}

// The quota is full, and only deletions can relieve it.
func TestPagesThatFailInTurnsDoNotHoldDeletionsBackForEver(t *testing.T) {
	s := newSite(t).page("/", "home", "/p0", "/p1", "/p2", "/old").page("/old", "old")
	pages := func() {
		for i := range 3 {
			s.page(fmt.Sprint("/p", i), fmt.Sprint("page ", i))
		}
	}
	pages()
	st := newStore()
	sink := withoutRoom{st}
	reads := func() {
		st.forget()
		_, err := crawl.Crawl(t.Context(), crawl.Config{URL: s.URL + "/"}, options(t), sink)
		require.NoError(t, err)
	}
	reads()
	s.page("/", "home", "/p0", "/p1", "/p2")
	for n := range crawl.MaxHeldCrawls + 1 {
		pages()
		s.status(fmt.Sprint("/p", n%3), 503)
		require.Contains(t, st.docs, s.URL+"/old")
		reads()
	}
	require.NotContains(t, st.docs, s.URL+"/old")
}

// Pages that an owner has taken out of the configuration are deleted, whatever fails.
func TestWhatIsOutOfScopeOrWasLookedAtIsNotHeld(t *testing.T) {
	s := newSite(t).page("/docs/", "home", "/docs/a", "/docs/b", "/docs/to", "/private").page("/docs/a", "A").page("/docs/b", "B", "/docs/c").
		page("/docs/c", "C").page("/docs/to", "to").page("/private", "secret")
	st := newStore()
	crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.URL = s.URL + "/docs/" })
	for id, d := range st.docs { // as the next configuration finds them
		d.ContentHash, d.VersionToken, d.Links = "", "", nil
		st.docs[id] = d
	}
	s.status("/docs/b", 503).redirect("/docs/to", "/docs/a", 301)
	res := crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.URL, c.PathPrefix = s.URL+"/docs/", "/docs/" })
	require.Equal(t, []string{"/docs/to", "/private"}, paths(s, st.deleted))
	require.Equal(t, 1, res.Held)
}

// Not parallel, like the next test: they lower a bound of all crawls. The next crawl is told the held documents, and may hold
// as many of its own.
func TestAsManyDocumentsAreHeldAsThereIsMemoryForTheirURLs(t *testing.T) {
	s := newSite(t).page("/", "home", "/new").page("/new", "new")
	st := newStore()
	crawlOK(t, s, st)
	for i := range 40 {
		id := fmt.Sprintf("%s/%03d%s", s.URL, i, strings.Repeat("a", 1900))
		st.docs[id] = worker.Document{SourceID: id, VersionToken: "{}"}
	}
	defer crawl.SetMaxURLBytes(40_000)()
	s.page("/", "home", "/failing").status("/failing", 500)
	res := crawlOK(t, s, st)
	require.Equal(t, 21, res.Held)
	require.Len(t, st.deleted, 20)
}

func TestNoMoreDocumentsAreHeldThanMaxPages(t *testing.T) {
	s := newSite(t).page("/", "home", "/a", "/b", "/c", "/d").page("/a", "A").page("/b", "B").page("/c", "C").page("/d", "D")
	st := newStore()
	crawlOK(t, s, st)
	s.page("/", "home", "/failing").status("/failing", 500)
	res := crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.MaxPages = ptr(3) })
	require.Equal(t, 3, res.Held)
	require.Equal(t, []string{"/d"}, paths(s, st.deleted))
}

func TestFailuresThatThereIsNoMemoryToKeepAreStoredAtOnce(t *testing.T) {
	var hrefs []string
	s, st := newSite(t), newStore()
	for i := range 70 {
		path := fmt.Sprintf("/%03d%s", i, strings.Repeat("a", 200))
		hrefs = append(hrefs, path)
		s.status(path, 500)
	}
	s.page("/", "home", append(hrefs, "/last")...).page("/last", "last")
	defer crawl.SetMaxURLBytes(30_000)()
	res := crawlOK(t, s, st)
	require.False(t, res.Truncated, res.Bound)
	require.Equal(t, 70, res.Failed)
	require.Len(t, st.docs, 72)
	last := slices.Index(st.put, s.URL+"/last")
	require.Greater(t, last, 1, "some are stored before")
	require.Less(t, last, 70, "others after")
}

// A link whose address is new at each crawl, and fails: it contains a token, a session, a day.
func TestPagesThatAreNewAtEachCrawlAndFailDoNotHoldDeletionsBackForEver(t *testing.T) {
	s := newSite(t).page("/", "home", "/old", "/a").page("/old", "withdrawn", "/behind").page("/behind", "more").page("/a", "A")
	s.status("/export", 500)
	st := newStore()
	crawlOK(t, s, st)
	s.remove("/old")
	s.remove("/behind")
	for n := range 3 * (crawl.MaxHeldCrawls + 1) {
		s.page("/", "home", "/a", fmt.Sprint("/export?token=", n))
		res := crawlOK(t, s, st)
		require.Equal(t, n < crawl.MaxHeldCrawls, st.docs[s.URL+"/old"].Title != "", "crawl %d", n)
		require.Equal(t, n >= crawl.MaxHeldCrawls, res.Held == 0)
		failures := slices.DeleteFunc(st.ids(s), func(id string) bool { return !strings.HasPrefix(id, "/export") })
		require.Equal(t, []string{fmt.Sprint("/export?token=", n)}, failures, "there was never anything behind those that nothing links to")
	}
}

// A redirecting URL has no document, so that each of its failures is new.
func TestRedirectsThatFailInTurnsDoNotHoldDeletionsBackForEver(t *testing.T) {
	s, hrefs := newSite(t).page("/a", "A").page("/old", "withdrawn"), []string{"/0", "/1", "/2"}
	redirects := func() {
		for _, href := range hrefs {
			s.redirect(href, "/a", 302)
		}
	}
	redirects()
	s.page("/", "home", append(hrefs, "/old")...)
	st := newStore()
	crawlOK(t, s, st)
	s.page("/", "home", hrefs...)
	for n := range crawl.MaxHeldCrawls + 1 {
		require.Contains(t, st.docs, s.URL+"/old")
		redirects()
		s.status(hrefs[n%3], 503)
		crawlOK(t, s, st)
	}
	require.NotContains(t, st.docs, s.URL+"/old")
}

func TestACrawlThatHoldsNothingBackEndsTheRowOfThoseThatDid(t *testing.T) {
	s := newSite(t).page("/", "home", "/hub").redirect("/hub", "/b", 301).page("/b", "hub", "/c").page("/c", "C")
	st := newStore()
	crawlOK(t, s, st)
	for n := range 2 * crawl.MaxHeldCrawls {
		s.page("/", "home", "/hub", fmt.Sprint("/new", n)).status(fmt.Sprint("/new", n), 500).redirect("/hub", "/b", 301)
		if n%2 == 1 {
			s.page("/", "home", "/hub")
		}
		crawlOK(t, s, st)
	}
	s.status("/hub", 500)
	crawlOK(t, s, st)
	require.Empty(t, st.deleted)
}

// A truncated crawl keeps the mark of a page that it did not reach, though it holds no deletion back for it.
func TestATruncatedCrawlEndsTheRowOfThoseThatHeldDeletionsBack(t *testing.T) {
	hrefs := []string{"/hub"}
	s, st := newSite(t), newStore()
	for i := range 130 {
		path := fmt.Sprint("/", i)
		hrefs = append(hrefs, path)
		s.html(path, "<meta name=robots content=noindex>")
	}
	s.page("/", "home", "/hub").redirect("/hub", "/b", 301).page("/b", "hub", "/c").page("/c", "C")
	crawlOK(t, s, st)
	s.page("/", "home", append(hrefs, "/refused")...)
	st.docs[s.URL+"/refused"] = worker.Document{SourceID: s.URL + "/refused", Err: "no room for it", ContentHash: "x", Memo: json.RawMessage(fmt.Sprintf(`{"unread":true,"crawls":%d}`, crawl.MaxHeldCrawls))}
	few := func(c *crawl.Config, _ *crawl.Options) { c.MaxPages = ptr(5) }
	require.True(t, crawlOK(t, s, st, few).Truncated)
	require.Equal(t, []string{"/", "/b", "/c", "/refused"}, st.ids(s))

	s.page("/", "home", "/hub", "/refused").page("/refused", "text").status("/hub", 500)
	res := crawlOK(t, s, st, few)
	require.Equal(t, 2, res.Held)
	require.Empty(t, st.deleted)
}

// A site may have a link that is new at each crawl, and fails.
func TestCrawlsThatHoldNothingBackSpendNothingOfTheRow(t *testing.T) {
	s := newSite(t).page("/hub", "hub", "/behind").page("/behind", "behind").redirect("/to", "/hub", http.StatusFound)
	s.page("/", "home", "/to")
	st := newStore()
	crawlOK(t, s, st)
	for n := range 9 {
		trap := fmt.Sprint("/trap", n)
		s.page("/", "home", "/to", trap).status(trap, http.StatusInternalServerError).redirect("/to", "/hub", http.StatusFound)
		if n%4 == 3 {
			s.status("/to", http.StatusServiceUnavailable)
		}
		crawlOK(t, s, st)
		require.Contains(t, st.docs, s.URL+"/behind", n)
	}
}
