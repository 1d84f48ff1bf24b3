package chunker

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
)

func TestMain(m *testing.M) {
	confine.Serve(Tasks...)
	os.Exit(m.Run())
}

// nowhere is a Sink that stores nothing.
type nowhere struct{}

func (nowhere) Known(context.Context) (map[string]worker.Known, error) { return nil, nil }
func (nowhere) Links(context.Context, string) ([]string, error)        { return nil, nil }
func (nowhere) Put(context.Context, worker.Document) error             { return nil }
func (nowhere) Touch(context.Context, worker.Document) error           { return nil }
func (nowhere) Delete(context.Context, string) error                   { return nil }
func (nowhere) Unchanged(int)                                          {}
func (nowhere) DeletionsAllowed(context.Context) (bool, error)         { return false, nil }

// The crawls of a process share the state of a host, but "come back later" holds only the owner who was told so.
func TestTheCrawlsOfTwoUsersAreThoseOfTwoOwners(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/limited" {
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("text"))
	}))
	defer site.Close()
	cfg := valid(t)
	cfg.AllowCIDRs = []string{"127.0.0.0/8"}
	registry, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	pool, err := confine.New(t.Context(), 1, confine.Limits{MemoryMB: 128}, log, confine.NewMetrics(registry))
	require.NoError(t, err)
	defer pool.Close()
	w, err := newWeb(cfg, pool, room.New(cfg.Content()), newMetrics(registry))
	require.NoError(t, err)
	defer w.close()

	text := func(context.Context, []byte, string, string) (worker.Document, error) {
		return worker.Document{Title: "text"}, nil
	}
	waiting := make(chan struct{}, 1)
	held, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		opt := w.options(1, "1", log)
		opt.Extract = text
		opt.Wait = func(ctx context.Context, _ time.Duration) error {
			waiting <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		_, _ = crawl.Crawl(held, crawl.Config{URL: site.URL + "/limited"}, opt, nowhere{})
	}()
	defer func() { end(); <-done }()
	<-waiting

	waited := func(owner string) (n int) {
		opt := w.options(1, owner, log)
		opt.Extract = text
		now := time.Now()
		opt.Now = func() time.Time { return now }
		opt.Wait = func(ctx context.Context, d time.Duration) error {
			n++
			now = now.Add(d)
			return ctx.Err()
		}
		_, err := crawl.Crawl(t.Context(), crawl.Config{URL: site.URL}, opt, nowhere{})
		require.NoError(t, err)
		return n
	}
	require.Zero(t, waited("2"))
	require.Positive(t, waited("1"))
}
