//go:build !race

package crawl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

// Not parallel, like all tests below: they lower a bound of all crawls. The links of this site take 240 KB; each once took 80
// bytes more, and was kept.
func TestAShopIsStoredUnderItsCanonicalAddresses(t *testing.T) {
	defer SetMaxURLBytes(256 << 10)()
	s := stocked()
	c := s.crawl(t, 500, shop)
	require.False(t, c.result.Truncated, c.result.Bound)
	require.Zero(t, s.others())
	require.Empty(t, s.deleted)
	require.Len(t, s.put, 1+collections+products)
}

func TestAShopThatIsTooLargeIsNeitherStoredTwiceNorDeleted(t *testing.T) {
	for _, most := range []int{128 << 10, 64 << 10, 32 << 10, 8 << 10} {
		undo := SetMaxURLBytes(most)
		s := stocked()
		c := s.crawl(t, 500, shop)
		undo()
		require.True(t, c.result.Truncated)
		require.Contains(t, c.result.Bound, fmt.Sprintf("more memory than a crawl has for them, %d bytes", most))
		require.Contains(t, c.result.Bound, "path_prefix")
		require.Zero(t, s.others(), "%d bytes", most)
		if most > 16<<10 { // the addresses of all products
			require.Empty(t, s.deleted, "%d bytes", most)
			require.Positive(t, c.result.Held)
		}
	}
}

// After a complete crawl only hashes of the site are left.
func TestACrawlGivesBackAllMemoryButForHashes(t *testing.T) {
	for name, site := range map[string]written{
		"shop": shop,
		"canonical pages that come to nothing": func(path string) string {
			if path == "/" {
				return "<a href=/a><a href=/b><a href=/c><a href=/later>"
			}
			if path == "/missing" || path == "/robots.txt" {
				return ""
			}
			return "<link rel=canonical href=/missing>" + path
		},
		"pages that name one through others": func(path string) string {
			switch path {
			case "/":
				return "<a href=/a><a href=/b><a href=/c><a href=/d>"
			case "/a", "/b", "/c":
				return "<link rel=canonical href=" + string(rune(path[1]+1)) + ">" + path
			}
			return "page " + path
		},
		"pages that name one that is to be read later": func(path string) string {
			if path == "/" {
				return "<a href=/a><a href=/b><a href=/c><a href=/1><a href=/2><a href=/3><a href=/4><a href=/5><a href=/6><a href=/7><a href=/named>"
			}
			return "<link rel=canonical href=/named>" + path
		},
	} {
		s := &index{}
		c := s.crawl(t, 500, site)
		require.False(t, c.result.Truncated, name)
		hashes := len(c.frontier.seen) - 1 + len(c.appliedURLs) + len(c.docs) + len(c.textless) + len(c.old) + len(c.redirecting) + len(c.undecided) // the start page's is seen for nothing
		require.Equal(t, maxURLBytes-seenBytes*hashes, c.frontier.left, name)
		require.Empty(t, c.waiting, name)
		require.Empty(t, c.waitsFor, name)
		require.Empty(t, c.reading, name)
	}
}

// Each page names another page that no link has shown, for ever.
func TestPagesThatWaitForTheirCanonicalOnesTakeBoundedMemory(t *testing.T) {
	const most = 64 << 10
	defer SetMaxURLBytes(most)()
	pad := strings.Repeat("a", 1000)
	s, waiting := &index{}, 0
	c := s.crawl(t, 500, func(path string) string {
		var n int
		if _, err := fmt.Sscanf(path, "/%d-", &n); err != nil && path != "/" {
			return ""
		}
		return fmt.Sprintf("<link rel=canonical href=/%d-%s>%d", n+1, pad, n)
	})
	for _, ids := range c.waiting {
		for _, id := range ids {
			waiting += len(id)
		}
	}
	require.LessOrEqual(t, waiting, most)
	require.True(t, c.result.Truncated)
	require.NotEmpty(t, s.put, "the one that has no room to wait stands for itself")
}

func TestACanonicalPageIsReadInThePlaceOfThePageThatNamesIt(t *testing.T) {
	s := &index{}
	s.crawl(t, 5, func(path string) string {
		switch path {
		case "/":
			return "<a href=/0><a href=/1><a href=/2><a href=/3><a href=/4><a href=/5><a href=/6><a href=/7><a href=/8><a href=/9><a href=/named>"
		case "/0":
			return "<link rel=canonical href=/named>"
		}
		return "page " + path
	})
	require.Len(t, s.put, 5)
	require.Contains(t, s.put, "https://site.example/named")
}

// Documents that a crawl did not reach are kept, as far as max_pages has room. Documents that it read and found to have no
// content are not.
func TestACrawlThatEndsForLackOfRequestsDeletesNothingThatItDidNotLookAt(t *testing.T) {
	known := map[string]worker.Known{}
	for _, path := range []string{"unseen/1", "unseen/2", "3", "secret"} {
		known["https://site.example/"+path] = worker.Known{VersionToken: "{}", ContentHash: "old"}
	}
	site := func(path string) string {
		switch path {
		case "/robots.txt":
			return "User-agent: *\nDisallow: /secret"
		case "/":
			var b strings.Builder
			for i := range 500 {
				_, _ = fmt.Fprintf(&b, "<a href=/%d>", i)
			}
			return b.String()
		}
		return "<meta name=robots content=noindex>"
	}
	for pages, deleted := range map[int][]string{
		20: {"3", "secret"}, 3: {"3", "secret"}, 2: {"3", "secret", "unseen/2"}, 1: {"3", "secret", "unseen/1", "unseen/2"},
	} {
		s := &index{known: known}
		c := s.crawl(t, pages, site)
		require.True(t, c.result.Truncated)
		require.Equal(t, 4-len(deleted), c.result.Held)
		for i := range s.deleted {
			s.deleted[i] = strings.TrimPrefix(s.deleted[i], "https://site.example/")
		}
		require.Equal(t, deleted, s.deleted, "max_pages %d", pages)
		if pages > 1 {
			require.Contains(t, c.result.Bound, fmt.Sprintf("%d pages were read, as many as max_pages %d allows", maxFetches(pages), pages))
		} else {
			require.Contains(t, c.result.Bound, "the 1 documents of max_pages")
		}
	}
}

func TestAPageWhoseCanonicalOneTheCrawlDidNotComeToIsKept(t *testing.T) {
	s := &index{known: map[string]worker.Known{"https://site.example/last": {VersionToken: "{}", ContentHash: "old"}}}
	c := s.crawl(t, 3, func(path string) string {
		switch path {
		case "/":
			var b strings.Builder
			for i := range maxFetches(3) - 2 {
				_, _ = fmt.Fprintf(&b, "<a href=/%d>", i)
			}
			return b.String() + "<a href=/last>"
		case "/last":
			return "<link rel=canonical href=/named>"
		}
		return "<meta name=robots content=noindex>"
	})
	require.True(t, c.result.Truncated)
	require.Len(t, c.waiting, 1)
	require.Empty(t, s.deleted)
	require.Equal(t, 1, c.result.Held)
}

func TestWhatATruncatedCrawlKeepsHasRoomInTheMemoryOfTheNext(t *testing.T) {
	const most = 64 << 10
	defer SetMaxURLBytes(most)()
	s := &index{known: map[string]worker.Known{}}
	for i := range 100 {
		s.known[fmt.Sprintf("https://site.example/unseen/%03d%s", i, strings.Repeat("a", 1000))] = worker.Known{VersionToken: "{}", ContentHash: "old"}
	}
	c := s.crawl(t, 200, func(path string) string {
		var b strings.Builder
		for i := range 50 {
			_, _ = fmt.Fprintf(&b, "<a href=%s/%d>", strings.TrimSuffix(path, "/"), i)
		}
		return "<meta name=robots content=noindex>" + b.String()
	})
	require.True(t, c.result.Truncated)
	require.Equal(t, most/1032, c.result.Held)
	require.Len(t, s.deleted, 100-c.result.Held)
}
