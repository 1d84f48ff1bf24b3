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
