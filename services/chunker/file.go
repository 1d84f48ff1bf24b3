package chunker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/chunker/internal/dbgen"
	"github.com/echomind/sync/services/internal/extract"
	"github.com/echomind/sync/services/internal/uploads"
)

// file is the source of folders, and of files that people upload.
type file struct {
	options files.Options
	bucket  *uploads.Bucket // nil = no place for uploads
	queries *dbgen.Queries
	pool    *confine.Pool
	room    *room.Room
	metrics *metrics
}

func newFile(ctx context.Context, cfg Config, db dbgen.DBTX, pool *confine.Pool, content *room.Room, m *metrics, log *slog.Logger) (*file, error) {
	f := &file{queries: dbgen.New(db), pool: pool, room: content, metrics: m}
	if cfg.Uploads.URL != "" {
		var err error
		if f.bucket, err = uploads.Open(ctx, cfg.Uploads); err != nil {
			return nil, err
		}
	}
	roots := files.OpenRoots(cfg.FileRoots, cfg.private()...)
	if err := roots.Problems(); err != nil {
		log.Warn("folders that file connectors may read cannot be opened; connectors of these fail", "err", err)
	}
	f.options = files.Options{Roots: roots, Chunk: cfg.chunks()}
	return f, nil
}

func (f *file) close() error {
	err := f.options.Roots.Close()
	if f.bucket != nil {
		err = errors.Join(err, f.bucket.Close())
	}
	return err
}

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
	result, err := f.read(ctx, cfg, options, run)
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

// read syncs a folder, or what was uploaded.
func (f *file) read(ctx context.Context, cfg files.Config, options files.Options, run *worker.Run) (files.Result, error) {
	if !cfg.IsUploaded() {
		return files.Sync(ctx, cfg, options, run)
	}
	if f.bucket == nil {
		return files.Result{}, worker.Refused(files.ErrNoUploads)
	}
	return files.SyncUploads(ctx, cfg, options, files.Uploads{Bucket: f.bucket, Page: f.uploaded(run)}, run)
}

// uploadPage is how many uploaded files are asked for at once.
const uploadPage = 1000

// uploaded lists the files that were uploaded to a run's connector.
func (f *file) uploaded(run *worker.Run) func(context.Context, string) ([]files.Uploaded, error) {
	return func(ctx context.Context, after string) (all []files.Uploaded, err error) {
		var rows []dbgen.UploadedRow
		err = run.Patiently(ctx, "chunker.uploaded", func(ctx context.Context) (err error) {
			rows, err = f.queries.Uploaded(ctx, dbgen.UploadedParams{RunID: run.Try().Run, TryID: run.Try().ID, After: after, Page: uploadPage})
			return err
		})
		for _, row := range rows {
			all = append(all, files.Uploaded{Name: row.Name, Object: row.Object, Bytes: row.Bytes, SHA256: row.Sha256})
		}
		return all, err
	}
}

// remarkOf says what a folder's listing left out, or why no file is taken.
func remarkOf(cfg files.Config, result files.Result) string {
	switch {
	case result.Listed > 0 || !result.Whole:
		return result.LeftOut.String()
	case cfg.IsUploaded():
		return "no file is uploaded"
	case len(cfg.Include) > 0:
		return fmt.Sprintf("no file is taken: none matches include (%s) and no exclude; correct the patterns, which are relative to the folder",
			secret.Short(strings.Join(cfg.Include, ", "), 200))
	}
	return "no file is taken: the folder is empty, or its files are hidden or excluded"
}
