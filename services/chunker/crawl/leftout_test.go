package crawl_test

import (
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
	const want = "pages left out: 2 deeper than max_depth, like /deep; 2 forbidden by robots.txt, like /private/x; " +
		"1 marked noindex, like /hidden; 1 not there (404 or 410), like /gone; 1 redirected out of the site, like /away"
	require.Equal(t, want, crawlOK(t, s, st, one).LeftOut.String())
	require.Equal(t, want, crawlOK(t, s, st, one).LeftOut.String(), "stored links count as well")
	require.Empty(t, crawlOK(t, newSite(t).page("/", "home", "/a").page("/a", "A"), newStore()).LeftOut.String())
}

func TestNoMorePagesAreCountedAsLeftOutThanThereIsMemoryFor(t *testing.T) {
	t.Cleanup(crawl.SetMaxLeftOut(2))
	s := newSite(t).page("/", "home", "/1", "/2", "/3").page("/1", "1").page("/2", "2").page("/3", "3")
	res := crawlOK(t, s, newStore(), func(c *crawl.Config, _ *crawl.Options) { c.MaxDepth = ptr(0) })
	require.Equal(t, "pages left out, the first 2 of them: 2 deeper than max_depth, like /1", res.LeftOut.String())
}
