//go:build !race

package crawl_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/chunker/crawl"
)

func TestPagesThatAreLeftOutAreCountedOnceByCause(t *testing.T) {
	other := newSite(t).page("/", "other")
	s := newSite(t).robots("User-agent: *\nDisallow: /private").
		page("/", "home", "/a", "/a#again", "/private/x?token=secret", "/private/y", "/gone", "/hidden", "/away", other.URL+"/").
		page("/a", "A", "/", "/deep", "/deep", "/deeper", "/private/z", "/gone").
		html("/hidden", `<meta name="robots" content="noindex"><main>hidden</main>`).
		redirect("/away", other.URL+"/", 301).
		page("/deep", "deep").page("/deeper", "deeper")
	st := newStore()
	one := func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(1) }
	const want = "pages left out: 2 deeper than max_depth; 2 forbidden by robots.txt; 1 marked noindex; 1 not there (404 or 410); 1 redirected out of the site"
	left := crawlOK(t, s, st, one).LeftOut
	require.Equal(t, want, left.String())
	require.Equal(t, []string{
		"left out, deeper than max_depth: /deep", "left out, deeper than max_depth: /deeper",
		"left out, forbidden by robots.txt: /private/x", "left out, forbidden by robots.txt: /private/y",
		"left out, marked noindex: /hidden", "left out, not there (404 or 410): /gone", "left out, redirected out of the site: /away",
	}, left.Pages())
	require.Equal(t, want, crawlOK(t, s, st, one).LeftOut.String(), "stored links count as well")
	require.Empty(t, crawlOK(t, newSite(t).page("/", "home", "/a").page("/a", "A"), newStore()).LeftOut.String())
}

func TestNoMorePagesAreCountedAsLeftOutThanThereIsMemoryFor(t *testing.T) {
	t.Cleanup(crawl.SetMaxLeftOut(2))
	s := newSite(t).page("/", "home", "/1", "/2", "/3").page("/1", "1").page("/2", "2").page("/3", "3")
	res := crawlOK(t, s, newStore(), func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(0) })
	require.Equal(t, "pages left out, the first 2 of them: 2 deeper than max_depth", res.LeftOut.String())
}

func TestAPageThatIsStoredAfterAllIsNotLeftOut(t *testing.T) {
	one := func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(1) }
	for name, s := range map[string]*site{
		"the target of a redirect": newSite(t).page("/", "home", "/a", "/b").page("/a", "A", "/c").redirect("/b", "/c", 302).page("/c", "C"),
		"a canonical page": newSite(t).page("/", "home", "/a", "/b").page("/a", "A", "/c").
			html("/b", `<link rel="canonical" href="/c"><title>B</title><main>same</main>`).page("/c", "same"),
	} {
		st := newStore()
		left := crawlOK(t, s, st, one).LeftOut
		require.Contains(t, st.docs, s.URL+"/c", name)
		require.Empty(t, left.Pages(), name)
		require.Empty(t, left.String(), name)
	}
}

func TestPathsThatManyPagesHaveAreNamedOnceAndPathsAreReadable(t *testing.T) {
	hrefs := []string{"/产品/技术文档/安装指南/第1章", "/%1b[31mred", "/x/a%0ab"}
	for i := range 30 {
		hrefs = append(hrefs, fmt.Sprintf("/article.php?id=%d", i))
	}
	none := func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(0) }
	left := crawlOK(t, newSite(t).page("/", "home", hrefs...), newStore(), none).LeftOut
	require.Equal(t, []string{
		"left out, deeper than max_depth: /产品/技术文档/安装指南/第1章", "left out, deeper than max_depth: /[31mred", "left out, deeper than max_depth: /x/ab",
		"left out, deeper than max_depth: /article.php (30 pages)",
	}, left.Pages())
}

func TestAPathThatMayLetInWhoHasItIsNotNamedWhole(t *testing.T) {
	s := newSite(t).page("/", "home", "/reset-password/5f4dcc3b5aa765d61d8327deb882cf99", "/invite/0e6b5a2c-7d3f-4e86-b0f4-3b7f2d1c9a55",
		"/s/Zk3vQ9xLr2TnB7yWc5MfHd/folder", "/x;jsessionid=A1B2C3D4E5F6A1B2C3D4E5F6", "/internationalization", "/2026-annual-report",
		"/reset/Q2hhbm9l-TW5Ob3c5_X7kzA", "/a-very-long-name-of-a-folder-that-takes-almost-eighty-bytes/and/0e6b5a2c-7d3f-4e86-b0f4-3b7f2d1c9a55")
	pages := crawlOK(t, s, newStore(), func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(0) }).LeftOut.Pages()
	require.Equal(t, []string{
		"left out, deeper than max_depth: /reset-password/…", "left out, deeper than max_depth: /invite/…", "left out, deeper than max_depth: /s/…/folder",
		"left out, deeper than max_depth: /x;jsessionid=REDACTED", "left out, deeper than max_depth: /internationalization", "left out, deeper than max_depth: /2026-annual-report",
		"left out, deeper than max_depth: /reset/…", "left out, deeper than max_depth: /a-very-long-name-of-a-folder-that-takes-almost-eighty-bytes/and/…",
	}, pages)
}

func TestLinksThatMayNotBeAskedForFillNoRoomUnseen(t *testing.T) {
	t.Cleanup(crawl.SetMaxLeftOut(3))
	s := newSite(t).robots("User-agent: *\nDisallow: /p").page("/", "home", "/p1", "/p2", "/p3", "/p4", "/x1", "/x2")
	left := crawlOK(t, s, newStore(), func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(0) }).LeftOut
	require.Equal(t, "pages are left out, more than are counted", left.String())
}

// The first 20 that are left out are stored after all; of the others none is named.
func TestWhatIsLeftOutIsNamedThoughTheFirstOnesAreStoredAfterAll(t *testing.T) {
	one := func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(1) }
	s := newSite(t)
	home, deep := []string{"/list"}, []string{}
	for i := range 20 {
		home = append(home, fmt.Sprintf("/go/%02d", i))
		deep = append(deep, fmt.Sprintf("/p/%02d", i))
		s.redirect(fmt.Sprintf("/go/%02d", i), fmt.Sprintf("/p/%02d", i), 302).page(fmt.Sprintf("/p/%02d", i), fmt.Sprint("page ", i))
	}
	s.page("/", "home", home...).page("/list", "list", append(deep, "/only/this/one")...)
	left := crawlOK(t, s, newStore(), one).LeftOut
	require.Equal(t, []string{"left out, deeper than max_depth: /only/this/one"}, left.Pages())
}
