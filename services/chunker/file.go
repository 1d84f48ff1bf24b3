package chunker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/internal/extract"
)

// file is the source of folders.
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

// ownerOf is the key by which children are shared: all syncs of one user get no more than one sync of another.
func ownerOf(run *worker.Run) string { return strconv.Itoa(int(run.Request().UserId)) }

// sync is the handler of connector.sync.file.
func (f *file) sync(ctx context.Context, run *worker.Run) error {
	var cfg files.Config
	if err := run.Config(&cfg); err != nil {
		return err
	}
	options := f.options
	options.Connector = run.Request().ConnectorId
	options.Room = f.room.ForOwner(ownerOf(run))
	options.Reader = extract.In(f.pool.Share(ownerOf(run)))
	result, err := files.Sync(ctx, cfg, options, run)
	f.metrics.folder(result)
	if err == nil {
		run.Remark(remarkOf(cfg, result))
		for _, name := range result.LeftOut.Names() {
			run.Warn(name)
		}
	}
	run.Log().Info("folder read", "listed", result.Listed, "put", result.Put, "touched", result.Touched,
		"unchanged", result.Unchanged, "failed", result.Failed, "deleted", result.Deleted, "err", err)
	return err
}

// remarkOf says what a folder's listing left out, or why no file is taken.
func remarkOf(cfg files.Config, result files.Result) string {
	switch {
	case result.Listed > 0 || !result.Whole:
		return result.LeftOut.String()
	case len(cfg.Include) > 0:
		return fmt.Sprintf("no file is taken: none matches include (%s) and no exclude; correct the patterns, which are relative to the folder",
			secret.Short(strings.Join(cfg.Include, ", "), 200))
	}
	return "no file is taken: the folder is empty, or its files are hidden or excluded"
}
