package crawl_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
)

// large serves pages whose size is unknown until they are decompressed, and a page with links to all of them.
func large(t *testing.T, pages int, contentType, body string) *site {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(body))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	s := newSite(t)
	var links []string
	for i := range pages {
		path := fmt.Sprintf("/large/%d", i)
		links = append(links, path)
		s.on(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		})
	}
	return s.page("/", "start", links...)
}

// held counts the bytes of bodies from their extraction until their documents are put.
type held struct {
	*store
	mu        sync.Mutex
	now, most int64
}

func (h *held) add(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += n
	h.most = max(h.most, h.now)
}

func (h *held) extract(_ context.Context, body []byte, _, url string) (worker.Document, error) {
	h.add(int64(len(body)))
	return worker.Document{Title: url, ContentHash: url, Chunks: []chunk.Chunk{{Text: strings.Repeat("x", len(body))}}}, nil
}

func (h *held) Put(ctx context.Context, d worker.Document) error {
	defer h.add(-size(d))
	return h.store.Put(ctx, d)
}

func size(d worker.Document) (n int64) {
	for _, c := range d.Chunks {
		n += int64(len(c.Text))
	}
	return n
}

func TestCrawlsTogetherHoldNoMoreThanThereIsRoomFor(t *testing.T) {
	t.Parallel()
	const pages, crawls, body = 12, 4, 256 << 10
	shared := room.New(room.Cost(2 << 20)) // room for eight bodies, if their sizes were known
	all := &held{store: newStore()}
	var wg sync.WaitGroup
	for i := range crawls {
		site := large(t, pages, "text/plain; charset=utf-8", strings.Repeat("word ", body/5))
		own := &held{store: newStore()}
		wg.Go(func() {
			opt := crawl.Options{
				Runner: crawl.InProcess{}, Transport: loopbackTransport(t), Room: shared.ForOwner(fmt.Sprint(i)), MaxBodyBytes: 1 << 20,
				Extract: func(ctx context.Context, body []byte, contentType, url string) (worker.Document, error) {
					all.add(int64(len(body)))
					return own.extract(ctx, body, contentType, url)
				},
			}
			result, err := crawl.Crawl(t.Context(), crawl.Config{URL: site.URL + "/"}, opt, counting{own, all})
			require.NoError(t, err)
			require.Equal(t, pages+1, result.Stored)
		})
	}
	wg.Wait()
	require.LessOrEqual(t, all.most, int64(2<<20+64<<10), "beside the start pages")
	require.Zero(t, shared.Taken(), "everything is given back")
}

// counting counts all documents of one crawl.
type counting struct {
	*held
	all *held
}

func (c counting) Put(ctx context.Context, d worker.Document) error {
	defer c.all.add(-size(d))
	return c.held.Put(ctx, d)
}

// A later page that took the room first would keep it until the earlier page is applied, which waits for that room.
func TestPagesThatComeOutOfOrderDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	const pages = 30
	site := large(t, pages, "text/plain; charset=utf-8", strings.Repeat("word ", 100_000))
	var mu sync.Mutex
	late := map[string]chan struct{}{}
	for i := 0; i+4 < pages; i += 5 {
		// A page is sent once a later one has been requested.
		later, ready := fmt.Sprintf("/large/%d", i+1), make(chan struct{})
		late[later] = ready
		first, second := site.pages[fmt.Sprintf("/large/%d", i)], site.pages[later]
		site.on(fmt.Sprintf("/large/%d", i), func(w http.ResponseWriter, r *http.Request) { <-ready; first(w, r) })
		site.on(later, func(w http.ResponseWriter, r *http.Request) {
			second(w, r)
			mu.Lock()
			defer mu.Unlock()
			if late[later] != nil {
				close(ready)
				delete(late, later)
			}
		})
	}
	shared := room.New(1 << 20) // half of it is less than one page reserves
	own := &held{store: newStore()}
	result, err := crawl.Crawl(t.Context(), crawl.Config{URL: site.URL + "/"}, crawl.Options{
		Runner: crawl.InProcess{}, Transport: loopbackTransport(t), Room: shared.ForOwner("a"), Extract: own.extract,
	}, own)
	require.NoError(t, err)
	require.Equal(t, pages+1, result.Stored)
	require.LessOrEqual(t, own.most, int64(600_000), "one at a time")
	require.Zero(t, shared.Taken())
}

// A page behind a page that waits for room waits for that page, and must not hold the room.
func TestSmallPagesThatMakeMuchDoNotKeepAnEarlierOneWaiting(t *testing.T) {
	t.Parallel()
	site := large(t, 6, "text/plain; charset=utf-8", strings.Repeat("word ", 100_000))
	for i := 1; i < 6; i++ {
		site.on(fmt.Sprintf("/large/%d", i), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("small")) })
	}
	shared := room.New(1 << 20)
	own := &held{store: newStore()}
	var most int64
	result, err := crawl.Crawl(t.Context(), crawl.Config{URL: site.URL + "/"}, crawl.Options{
		Runner: crawl.InProcess{}, Transport: loopbackTransport(t), Room: shared.ForOwner("a"),
		Extract: func(_ context.Context, _ []byte, _, url string) (worker.Document, error) {
			return worker.Document{ContentHash: url, Chunks: []chunk.Chunk{{Text: strings.Repeat("x", 300_000)}}}, nil
		},
	}, looking{own.store, func() { most = max(most, shared.Taken()) }})
	require.NoError(t, err)
	require.Equal(t, 7, result.Stored)
	require.Greater(t, most, int64(300_000), "what small pages make counts while it is sent")
	require.Zero(t, shared.Taken())
}

// looking inspects each document that is put.
type looking struct {
	*store
	look func()
}

func (l looking) Put(ctx context.Context, d worker.Document) error {
	l.look()
	return l.store.Put(ctx, d)
}

func TestAPageThatGrowsInUTF8IsBoundedAsUTF8(t *testing.T) {
	t.Parallel()
	for charset, body := range map[string]string{"windows-1252": strings.Repeat("\x80", 400_000), "utf-8": strings.Repeat("\xff a", 300_000)} {
		site := large(t, 1, "text/plain; charset="+charset, body)
		own := &held{store: newStore()}
		_, err := crawl.Crawl(t.Context(), crawl.Config{URL: site.URL + "/"}, crawl.Options{
			Runner: crawl.InProcess{}, Transport: loopbackTransport(t), Extract: own.extract, MaxBodyBytes: 1 << 20,
		}, own)
		require.NoError(t, err)
		require.Equal(t, "body is longer than 1048576 bytes in UTF-8", own.docs[site.URL+"/large/0"].Err, charset)
		require.Less(t, own.most, int64(1<<16), "the start page alone")
	}
}

// panicking makes the reading of some pages panic.
type panicking struct{ http.RoundTripper }

func (p panicking) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/large/") && !strings.HasSuffix(r.URL.Path, "0") {
		panic("an odd page")
	}
	return p.RoundTripper.RoundTrip(r)
}

func TestAPageThatHasItsReaderPanicFailsAlone(t *testing.T) {
	t.Parallel()
	site := large(t, 11, "text/plain; charset=utf-8", strings.Repeat("word ", 100_000))
	shared := room.New(8 << 20)
	own := &held{store: newStore()}
	result, err := crawl.Crawl(t.Context(), crawl.Config{URL: site.URL + "/"}, crawl.Options{
		Runner: crawl.InProcess{}, Transport: panicking{loopbackTransport(t)}, Room: shared.ForOwner("a"), Extract: own.extract,
	}, own)
	require.NoError(t, err)
	require.Equal(t, 3, result.Stored)
	require.Equal(t, 9, result.Failed)
	require.Contains(t, own.docs[site.URL+"/large/1"].Err, "an odd page")
	require.Zero(t, shared.Taken())
}
