package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/internal/extract"
)

func TestMain(m *testing.M) {
	confine.Serve(crawl.Task, extract.Task)
	goleak.VerifyTestMain(m)
}

// site is a web server on loopback whose pages a test sets, and that records its requests.
type site struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex
	pages map[string]http.HandlerFunc
	asked []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, pages: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.RequestURI())
	page := s.pages[r.URL.RequestURI()]
	if page == nil {
		page = s.pages[r.URL.EscapedPath()]
	}
	if page == nil {
		page = s.pages["*"]
	}
	s.mu.Unlock()
	if page == nil {
		http.NotFound(w, r)
		return
	}
	page(w, r)
}

func (s *site) on(path string, page http.HandlerFunc) *site {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = page
	return s
}

// page serves HTML whose body is text and links to each of hrefs.
func (s *site) page(path, text string, hrefs ...string) *site {
	return s.html(path, "<title>"+text+"</title><main>"+text+"</main>"+anchors(hrefs...))
}

func (s *site) html(path, html string) *site {
	return s.on(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(html))
	})
}

func (s *site) robots(text string) *site {
	return s.on("/robots.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

func (s *site) redirect(path, to string, code int) *site {
	return s.on(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(code)
	})
}

func (s *site) status(path string, code int) *site {
	return s.on(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// onceThen makes a path answer once as it does now, and then in another way.
func (s *site) onceThen(path string, then http.HandlerFunc) *site {
	s.mu.Lock()
	first := s.pages[path]
	s.mu.Unlock()
	var asked atomic.Bool
	return s.on(path, func(w http.ResponseWriter, r *http.Request) {
		if asked.Swap(true) {
			then(w, r)
			return
		}
		first(w, r)
	})
}

func (s *site) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, path)
}

// requests returns how often path was requested since the last forget.
func (s *site) requests(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.asked {
		if a == path {
			n++
		}
	}
	return n
}

func (s *site) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *site) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = nil
}

func anchors(hrefs ...string) string {
	var b strings.Builder
	for _, h := range hrefs {
		fmt.Fprintf(&b, "<a href=\"%s\">link</a>\n", html.EscapeString(h))
	}
	return b.String()
}

// store is a Sink that behaves like the real one over several crawls, and records the calls of the last crawl.
type store struct {
	docs      map[string]worker.Document
	put       []string
	touched   []string
	deleted   []string
	unchanged int
	failOn    string
	allows    bool
}

var errStore = errors.New("the store is away")

func newStore() *store { return &store{docs: map[string]worker.Document{}} }

func (s *store) forget() { s.put, s.touched, s.deleted, s.unchanged = nil, nil, nil, 0 }

func (s *store) fails(call string) error {
	if s.failOn == call {
		return errStore
	}
	return nil
}

func (s *store) Known(context.Context) (map[string]worker.Known, error) {
	known := map[string]worker.Known{}
	for id, d := range s.docs {
		known[id] = worker.Known{VersionToken: d.VersionToken, ContentHash: d.ContentHash, Memo: d.Memo}
		if d.Err != "" {
			known[id] = worker.Known{ContentHash: d.ContentHash, Memo: d.Memo} // a failed document has no token
		}
	}
	return known, s.fails("known")
}

func (s *store) Links(_ context.Context, id string) ([]string, error) {
	return slices.Clone(s.docs[id].Links), s.fails("links")
}

func (s *store) Put(_ context.Context, d worker.Document) error {
	s.put = append(s.put, d.SourceID)
	s.docs[d.SourceID] = d
	return s.fails("put")
}

func (s *store) Touch(_ context.Context, d worker.Document) error {
	s.touched = append(s.touched, d.SourceID)
	d.Chunks = s.docs[d.SourceID].Chunks
	s.docs[d.SourceID] = d
	return s.fails("touch")
}

func (s *store) Delete(_ context.Context, id string) error {
	s.deleted = append(s.deleted, id)
	delete(s.docs, id)
	return s.fails("delete")
}

func (s *store) Unchanged(n int) { s.unchanged += n }

func (s *store) DeletionsAllowed(context.Context) (bool, error) { return s.allows, nil }

func (s *store) text(id string) string {
	var b strings.Builder
	for _, c := range s.docs[id].Chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

// clock is time that passes only when somebody waits.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	return ctx.Err()
}

// extractMain stands for the real extraction: the text of <main>, and the title.
func extractMain(_ context.Context, body []byte, contentType, url string) (worker.Document, error) {
	media, _, _ := strings.Cut(contentType, ";")
	switch media {
	case "text/html", "application/xhtml+xml":
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(string(body)))
		if err != nil {
			return worker.Document{}, err
		}
		return worker.Document{Title: doc.Find("title").Text(), MediaType: media, Chunks: []chunk.Chunk{{Text: doc.Find("main").Text()}}}, nil
	case "text/plain", "text/markdown", "text/csv", "application/json":
		return worker.Document{Title: url, MediaType: media, Chunks: []chunk.Chunk{{Text: string(body)}}}, nil
	}
	return worker.Document{}, fmt.Errorf("unsupported content %s", media)
}

func loopbackTransport(t *testing.T) *http.Transport {
	t.Helper()
	tr := guard.New("CHUNKER_ALLOW_CIDRS", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}).Transport(guard.TransportConfig{})
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func options(t *testing.T) crawl.Options {
	t.Helper()
	c := newClock()
	return crawl.Options{Extract: extractMain, Runner: crawl.InProcess{}, Transport: loopbackTransport(t), Now: c.Now, Wait: c.Wait}
}

func ptr(n int) *int { return &n }

// crawlOK crawls the whole site and expects success. Earlier recorded calls are forgotten.
func crawlOK(t *testing.T, s *site, st *store, change ...func(*crawl.Config, *crawl.Options)) crawl.Result {
	t.Helper()
	res, err := crawlSite(t, s, st, change...)
	require.NoError(t, err)
	return res
}

func crawlSite(t *testing.T, s *site, st *store, change ...func(*crawl.Config, *crawl.Options)) (crawl.Result, error) {
	t.Helper()
	st.forget()
	s.forget()
	cfg, opt := crawl.Config{URL: s.URL + "/"}, options(t)
	for _, c := range change {
		c(&cfg, &opt)
	}
	return crawl.Crawl(t.Context(), cfg, opt, st)
}

// ids are the paths of the stored documents, sorted.
func (s *store) ids(base *site) []string {
	out := []string{}
	for id := range s.docs {
		out = append(out, strings.TrimPrefix(id, base.URL))
	}
	slices.Sort(out)
	return out
}

func paths(base *site, ids []string) []string {
	out := []string{}
	for _, id := range ids {
		out = append(out, strings.TrimPrefix(id, base.URL))
	}
	return out
}

// transportTo resolves every name to ip, and dials it through a dialer that the guard controls.
func transportTo(t *testing.T, allow string, ip [4]byte) *http.Transport {
	t.Helper()
	g := guard.New("CHUNKER_ALLOW_CIDRS", nil)
	if allow != "" {
		g = guard.New("CHUNKER_ALLOW_CIDRS", []netip.Prefix{netip.MustParsePrefix(allow)})
	}
	tr := g.Transport(guard.TransportConfig{})
	t.Cleanup(tr.CloseIdleConnections)
	dialer := g.Dialer(guard.TransportConfig{})
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return dialer.DialContext(ctx, network, net.JoinHostPort(netip.AddrFrom4(ip).String(), port))
	}
	return tr
}

// failEmpty is extractMain that fails for a page without text.
func failEmpty(ctx context.Context, body []byte, contentType, url string) (worker.Document, error) {
	page, err := extractMain(ctx, body, contentType, url)
	if err == nil && strings.TrimSpace(page.Chunks[0].Text) == "" {
		return worker.Document{}, errors.New("no main content")
	}
	return page, err
}

func deepHTML() string { return strings.Repeat("<div>", 100_000) }

// recordTypes records the content type and body that extraction gets for each page.
func recordTypes(got map[string]string) crawl.Extract {
	var mu sync.Mutex
	return func(_ context.Context, body []byte, contentType, url string) (worker.Document, error) {
		mu.Lock()
		defer mu.Unlock()
		got[url] = contentType + " " + string(body)
		return worker.Document{}, nil
	}
}
