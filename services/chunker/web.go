package chunker

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/internal/extract"
)

// web is the source of sites. All its syncs share its transport and its limits per host.
type web struct {
	transport *http.Transport
	metrics   *metrics
	hosts     *crawl.Hosts
	chunks    chunk.Options
	pool      *confine.Pool
	room      *room.Room
}

func newWeb(cfg Config, pool *confine.Pool, content *room.Room, m *metrics) (*web, error) {
	allowed, err := cfg.prefixes()
	if err != nil {
		return nil, err
	}
	return &web{
		transport: guard.New(allowHint, allowed).Transport(guard.TransportConfig{}),
		metrics:   m, hosts: crawl.NewHosts(), chunks: cfg.chunks(), pool: pool, room: content,
	}, nil
}

func (w *web) close() { w.transport.CloseIdleConnections() }

// sync is the handler of connector.sync.web.
func (w *web) sync(ctx context.Context, run *worker.Run) error {
	var cfg crawl.Config
	if err := run.Config(&cfg); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return worker.Permanent(err)
	}
	result, err := crawl.Crawl(ctx, cfg, w.options(run.Request().ConnectorId, ownerOf(run), run.Log()), run)
	if result.Truncated || result.Held > 0 {
		run.ListingPartial()
	}
	run.Remark(remarkOfSite(result))
	for _, page := range result.LeftOut.Pages() {
		run.Warn(page)
	}
	run.Log().Info("crawled", "start", secret.URL(result.Start), "stored", result.Stored, "touched", result.Touched,
		"unchanged", result.Unchanged, "failed", result.Failed, "deleted", result.Deleted, "skipped", result.Skipped, "held", result.Held,
		"truncated", result.Bound, "err", err)
	if errors.Is(err, worker.ErrPermanent) && errors.Is(err, guard.ErrBlocked) {
		return worker.Refused(err) // with other ranges it may be reached
	}
	return err
}

// remarkOfSite says what a crawl has left out, and why.
func remarkOfSite(result crawl.Result) string {
	said := slices.DeleteFunc([]string{result.Bound, result.LeftOut.String()}, func(part string) bool { return part == "" })
	return strings.Join(said, "; ")
}

// options returns the options of one owner's crawl.
func (w *web) options(connector int32, owner string, log *slog.Logger) crawl.Options {
	share := w.pool.Share(owner)
	return crawl.Options{
		Extract: w.extract(extract.In(share)), Runner: share, Transport: counted{w.transport, w.metrics}, Hosts: w.hosts, Logger: log,
		Connector: connector, Owner: owner, Room: w.room.ForOwner(owner),
	}
}

func (w *web) extract(reader extract.Reader) crawl.Extract {
	return func(ctx context.Context, body []byte, contentType, url string) (worker.Document, error) {
		text, err := reader.Extract(ctx, body, extract.Hint{MediaType: contentType, URL: url})
		if err != nil {
			return worker.Document{}, err
		}
		return worker.Document{
			Title: text.Title, MediaType: text.MediaType, ContentHash: text.Hash,
			Chunks: chunk.Split(text.Sections, w.chunks),
		}, nil
	}
}
