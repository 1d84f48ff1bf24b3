package chunker

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/extract"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files"
)

// file reads folders.
type file struct {
	options files.Options
	pool    *confine.Pool
	room    *room.Room
	metrics *metrics
}

func newFile(cfg Config, pool *confine.Pool, content *room.Room, m *metrics, log *slog.Logger) *file {
	roots := files.OpenRoots(cfg.FileRoots, cfg.private()...)
	if err := roots.Problems(); err != nil {
		log.Warn("folders that file connectors may read cannot be opened; connectors of these fail", "err", err)
	}
	return &file{options: files.Options{Roots: roots, Chunk: cfg.chunks()}, pool: pool, room: content, metrics: m}
}

func (f *file) close() error { return f.options.Roots.Close() }

// ownerOf is by whom children are shared: a user's syncs together get no more than another's one.
func ownerOf(run *worker.Run) string { return strconv.Itoa(int(run.Request().UserId)) }

// sync is the handler of connector.sync.file.
func (f *file) sync(ctx context.Context, run *worker.Run) error {
	var cfg files.Config
	if err := run.Config(&cfg); err != nil {
		return err
	}
	options := f.options
	options.Room = f.room.For(ownerOf(run))
	options.Reader = extract.In(f.pool.Share(ownerOf(run)))
	result, err := files.Sync(ctx, cfg, options, run)
	f.metrics.folder(result)
	if !result.Whole {
		run.ListingPartial()
	}
	run.Log().Info("folder read", "listed", result.Listed, "put", result.Put, "touched", result.Touched,
		"unchanged", result.Unchanged, "failed", result.Failed, "deleted", result.Deleted, "err", err)
	if errors.Is(err, files.ErrPermanent) {
		return worker.Permanent(err)
	}
	return err
}
