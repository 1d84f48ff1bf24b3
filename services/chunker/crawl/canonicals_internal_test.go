package crawl

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

// written is a site: the HTML of each page, by its path.
type written func(path string) (html string)

func (s written) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusOK, s(r.URL.Path)
	if body == "" {
		code = http.StatusNotFound
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Request: r, ContentLength: -1,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// index is a Sink that keeps only source ids.
type index struct {
	known        map[string]worker.Known
	put, deleted []string
}

func (s *index) Known(context.Context) (map[string]worker.Known, error) { return s.known, nil }
func (s *index) Links(context.Context, string) ([]string, error)        { return nil, nil }
func (s *index) Touch(ctx context.Context, doc worker.Document) error   { return s.Put(ctx, doc) }
func (s *index) Put(_ context.Context, doc worker.Document) error {
	s.put = append(s.put, doc.SourceID)
	return nil
}
func (s *index) Delete(_ context.Context, id string) error {
	s.deleted = append(s.deleted, id)
	return nil
}
func (s *index) Unchanged(int)                                {}
func (*index) DeletionsAllowed(context.Context) (bool, error) { return true, nil }
func (s *index) crawl(t *testing.T, pages int, site written) *crawler {
	t.Helper()
	depth := MaxMaxDepth
	opt, release, err := Options{
		Runner: InProcess{}, Transport: site,
		Extract: func(_ context.Context, body []byte, _, _ string) (worker.Document, error) {
			return worker.Document{Title: string(body)}, nil
		},
	}.withDefaults()
	require.NoError(t, err)
	defer release()
	c := newCrawler(Config{URL: "https://site.example/", MaxPages: &pages, MaxDepth: &depth}, opt, s, s.known)
	defer c.fetch.close()
	require.NoError(t, c.run(t.Context()))
	return c
}

const (
	products    = 300
	collections = 30 // of 40 products each: each product is in four
)

// shop names one of its own pages as canonical wherever it shows a product.
func shop(path string) string {
	var b strings.Builder
	_, product, is := strings.Cut(path, "/products/")
	switch {
	case path == "/":
		for i := range collections {
			_, _ = fmt.Fprintf(&b, "<a href=/collections/spring-and-summer-sale-%03d>c</a>", i)
		}
	case is:
		_, _ = fmt.Fprintf(&b, "<link rel=canonical href=/products/%s><h1>%s</h1>", product, product)
	case strings.HasPrefix(path, "/collections/"):
		var collection int
		_, _ = fmt.Sscanf(path[len(path)-3:], "%d", &collection)
		for i := range 40 {
			_, _ = fmt.Fprintf(&b, "<a href=%s/products/%s>p</a>", path, productName(collection*40+i))
		}
	}
	return b.String()
}

func productName(n int) string {
	return fmt.Sprintf("long-sleeve-t-shirt-in-winter-colours-%05d", n%products)
}

func stocked() *index {
	s := &index{known: map[string]worker.Known{}}
	for i := range products {
		s.known["https://site.example/products/"+productName(i)] = worker.Known{VersionToken: "{}", ContentHash: "old"}
	}
	return s
}

func (s *index) others() (n int) {
	for _, id := range s.put {
		if strings.Contains(id, "/collections/") && strings.Contains(id, "/products/") {
			n++
		}
	}
	return n
}

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

func TestACanonicalPageIsAskedForOnceWhereverItsTurnIs(t *testing.T) {
	for name, links := range map[string]string{
		"unseen":              "<a href=/a><a href=/b>",
		"read meanwhile":      "<a href=/a><a href=/named><a href=/b>",
		"read before":         "<a href=/named><a href=/a><a href=/b>",
		"to be read later":    "<a href=/a><a href=/b><a href=/1><a href=/2><a href=/3><a href=/4><a href=/5><a href=/6><a href=/7><a href=/named>",
		"named by one it led": "<a href=/a><a href=/1><a href=/2><a href=/3><a href=/4><a href=/5><a href=/6><a href=/7><a href=/8><a href=/b>",
	} {
		var asked atomic.Int64
		s := &index{}
		s.crawl(t, 500, func(path string) string {
			switch path {
			case "/":
				return links
			case "/named":
				asked.Add(1)
				return "<a href=/b>"
			case "/a", "/b":
				return "<link rel=canonical href=/named>"
			}
			return "page " + path
		})
		require.Equal(t, int64(1), asked.Load(), name)
		require.Contains(t, s.put, "https://site.example/named", name)
		require.NotContains(t, s.put, "https://site.example/a", name)
	}
}

func TestACanonicalPageThatComesToNothingIsNotReadAgainAtItsOwnTurn(t *testing.T) {
	var asked atomic.Int64
	s := &index{}
	s.crawl(t, 500, func(path string) string {
		switch path {
		case "/":
			return "<a href=/a><a href=/1><a href=/2><a href=/3><a href=/4><a href=/5><a href=/6><a href=/7><a href=/8>" +
				"<a href=/9><a href=/10><a href=/11><a href=/12><a href=/13><a href=/14><a href=/15><a href=/16><a href=/17><a href=/named>"
		case "/named":
			asked.Add(1)
			return "<meta name=robots content=noindex>"
		case "/a":
			return "<link rel=canonical href=/named>"
		}
		return "page " + path
	})
	require.Equal(t, int64(1), asked.Load())
	require.Contains(t, s.put, "https://site.example/a", "it stands for itself")
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
