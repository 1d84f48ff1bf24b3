//go:build !race

// One thing after another for minutes: there is no race to find.

package crawl_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/internal/extract"
)

// heap is the memory in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Each of these pages, of 390 KB, once became 59 MB of text in the service.
func TestPagesThatUnpackAsTextTakeNoMoreMemoryThanTheRoomCounts(t *testing.T) {
	const pages = 8
	pool, err := confine.New(t.Context(), 2, confine.Limits{MemoryMB: 256}, slog.New(slog.DiscardHandler), confine.NewMetrics(prometheus.NewRegistry()))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	body := []byte(`{"` + strings.Repeat("k", 300) + `":[` + strings.Repeat("1,", 195<<10) + `1]}`)
	s := newSite(t)
	var links []string
	for p := range pages {
		path := fmt.Sprintf("/j%d", p)
		links = append(links, path)
		s.on(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		})
	}
	s.page("/", "start", links...)
	share, shared := pool.Share("owner"), room.New(128<<20)
	reader := extract.In(share)
	before := heap()
	var most int64
	result, err := crawl.Crawl(t.Context(), crawl.Config{URL: s.URL + "/"}, crawl.Options{
		Runner: share, Transport: loopbackTransport(t), Room: shared.ForOwner("owner"),
		Extract: func(ctx context.Context, body []byte, contentType, url string) (worker.Document, error) {
			text, err := reader.Extract(ctx, body, extract.Hint{MediaType: contentType, URL: url})
			return worker.Document{MediaType: text.MediaType, ContentHash: text.Hash, Chunks: chunk.Split(text.Sections, chunk.Options{})}, err
		},
	}, looking{newStore(), func() { most = max(most, heap()-before) }})
	require.NoError(t, err)
	require.Equal(t, pages+1, result.Stored)
	require.Less(t, most, int64(pages)*room.Cost(int64(len(body))), "what so many bodies are counted as")
	require.Zero(t, shared.Taken())
}

// Not parallel: it lowers a bound of all crawls.
func TestASiteOfEndlessLongURLsIsCrawledAsFarAsThereIsMemoryForThem(t *testing.T) {
	const most = 64 << 10
	defer crawl.SetMaxURLBytes(most)()
	s := newSite(t)
	pad := strings.Repeat("a", 1000)
	for name, page := range map[string]func(w http.ResponseWriter, id int64){
		"links": func(w http.ResponseWriter, id int64) {
			for i := range 30 {
				_, _ = fmt.Fprintf(w, `<a href="/%d-%d-%s">x</a>`, id, i, pad)
			}
		},
		"links that redirect to longer ones": func(w http.ResponseWriter, id int64) {
			for i := range 30 {
				_, _ = fmt.Fprintf(w, `<a href="/to/%d-%d">x</a>`, id, i)
			}
		},
		"pages that name others": func(w http.ResponseWriter, id int64) {
			_, _ = fmt.Fprintf(w, `<link rel=canonical href="/%d-named-%s">`, id, pad)
			for i := range 30 {
				_, _ = fmt.Fprintf(w, `<a href="/%d-%d-%s">x</a>`, id, i, pad)
			}
		},
	} {
		var n atomic.Int64
		s.on("*", func(w http.ResponseWriter, r *http.Request) {
			id := n.Add(1)
			if to, is := strings.CutPrefix(r.URL.Path, "/to/"); is {
				http.Redirect(w, r, "/"+to+pad, http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, "<main>%d</main>", id)
			page(w, id)
		}).status("/robots.txt", 404)
		st := newStore()
		res := crawlOK(t, s, st, func(c *crawl.Config, _ *crawl.Options) { c.MaxPages, c.MaxDepth = ptr(50_000), ptr(20) })
		require.True(t, res.Truncated, name)
		bytes := 0
		for id := range st.docs {
			bytes += len(id)
		}
		require.LessOrEqual(t, bytes, most, name)
		require.Greater(t, len(st.docs), 15, name)
	}
}
