package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/internal/extract"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files/rootblob"
)

// DefaultInFlightBytes bounds the content of files that are read at the same time.
const DefaultInFlightBytes = MaxMaxFileBytes

// Sink takes what a sync finds. It must be safe for concurrent use. An error of any method ends the sync
// and is returned as it is.
type Sink interface {
	// Known returns what is stored of the source's documents, by source id. Sync does not change the map.
	Known(ctx context.Context) (map[string]worker.Known, error)
	// Put stores a document that is new, has changed, or has failed in a new way.
	Put(ctx context.Context, doc worker.Document) error
	// Touch stores a new version token for a document whose content is the same.
	Touch(ctx context.Context, doc worker.Document) error
	// Delete removes a document that is gone.
	Delete(ctx context.Context, sourceID string) error
	// Unchanged counts documents that need nothing.
	Unchanged(n int)
}

// Options tune Sync. They belong to the service, not to the connector.
type Options struct {
	// Reader reads the files. Required.
	Reader extract.Reader
	// Roots are the folders in which sources may lie; nil means that nothing is allowed.
	Roots *Roots
	// Workers is how many files are read at the same time; 0 means GOMAXPROCS.
	Workers int
	// InFlightBytes bounds the content of the files read at the same time; a larger file is read alone.
	// 0 means DefaultInFlightBytes (32 MiB).
	InFlightBytes int64
	// Room is memory for files, from their reading until their documents are sent. Its zero value has no end.
	Room room.Owned
	// Chunk is the size of chunks.
	Chunk chunk.Options
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Result counts what a sync did.
type Result struct {
	// Listed are the files that the configuration takes; the others are how they went. A failure that is
	// stored already counts as Unchanged, not as Failed.
	Listed, Put, Touched, Unchanged, Deleted, Failed int
	// Whole is false when some folder below the source's could not be read. Documents under it are then
	// left as they are.
	Whole bool
}

// Changed tells whether the sync changed anything that is stored.
func (r Result) Changed() bool { return r.Put+r.Touched+r.Deleted+r.Failed > 0 }

// Sync brings sink up to date with the folder that cfg names.
//
// A file whose version token, size and time of change ("size-nanoseconds"), is the stored one is not read.
// Any other is read, and put or, if its content hash is the stored one, touched. Documents whose files are
// not listed any more are deleted once the listing has ended without error; so a mount point that suddenly
// lists nothing deletes them all, while one that answers with an error deletes nothing.
//
// What cannot be read fails as a document (Document.Err), with a ContentHash of its token and reason. The
// next sync tries it again, and puts it again only if that hash has changed. If the reason lay in the content
// (its type, its size), the file is not even read again until it, or this program's reading of it, changes.
//
// Errors of the folder itself that only a change of configuration or folder can cure are ErrPermanent: it
// does not exist, is no folder, is outside opts.Roots, or holds more than cfg.MaxFiles files. Others (a
// folder that cannot be listed) are worth a retry. Sink errors and ctx.Err() are returned as they are.
func Sync(ctx context.Context, cfg Config, opts Options, sink Sink) (Result, error) {
	globs, err := cfg.globs()
	if err := errors.Join(err, opts.Chunk.Validate()); err != nil {
		return Result{}, permanent{err}
	}
	if opts.Reader == nil {
		return Result{}, errors.New("files.Options: Reader is missing")
	}
	folder, err := parseURL(cfg.URL)
	if err != nil {
		return Result{}, permanent{err}
	}
	root, private, err := openFolder(folder, opts.Roots)
	if err != nil {
		return Result{}, err
	}
	bucket := rootblob.Open(root, private)
	defer bucket.Close()
	known, err := sink.Known(ctx)
	if err != nil {
		return Result{}, err
	}
	opts = opts.withDefaults()
	group, ctx2 := errgroup.WithContext(ctx)
	s := &syncer{
		cfg: cfg, globs: globs, opts: opts, sink: sink, bucket: bucket, folder: folder, known: known,
		missing: maps.Clone(known), bytes: semaphore.NewWeighted(opts.InFlightBytes),
		work: make(chan file, 4*opts.Workers),
	}
	for range opts.Workers {
		group.Go(func() error { return s.process(ctx2) })
	}
	group.Go(func() error {
		defer close(s.work)
		return s.list(ctx2)
	})
	if err := group.Wait(); err != nil {
		return s.result(), err
	}
	if err := s.stillThere(root); err != nil {
		return s.result(), err
	}
	if err := s.deleteMissing(ctx); err != nil {
		return s.result(), err
	}
	if n := int(s.unchanged.Load()); n > 0 {
		sink.Unchanged(n)
	}
	return s.result(), nil
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.InFlightBytes <= 0 {
		o.InFlightBytes = DefaultInFlightBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// pageSize bounds what is held of a listing, beside the names of the folders that are open: 4 MB of the longest paths, whose keys
// may have 12 KB.
const pageSize = 250

// maxNamesBytes is the memory that a listing has for names: in one folder a million of 25 bytes, or 450,000 of 64. Tests lower
// it.
var maxNamesBytes = 32 << 20

// maxUnread is how many folders that cannot be read are told apart. Where there are more, nothing is deleted.
const maxUnread = 1000

// maxIDBytes bounds the source ids of one folder, which the next sync is told all at once. Tests lower it.
var maxIDBytes = 256 << 20

// foldersInOne is how many folders one folder may hold, beside its files. Tests lower it.
var foldersInOne = 50_000

// list sends the files that need work to the workers, and takes every listed one off missing.
func (s *syncer) list(ctx context.Context) error {
	opts := &blob.ListOptions{BeforeList: func(as func(any) bool) error {
		var l *rootblob.Listing
		if as(&l) {
			l.Skip = func(dir string) bool { return s.globs.skipsDir(ctx, dir) }
			l.Takes = func(file string) bool {
				takes, err := s.globs.takes(ctx, file)
				return takes || err != nil // listed says it again
			}
			l.Most, l.MostBytes = s.cfg.maxFiles()+foldersInOne, maxNamesBytes
		}
		return nil
	}}
	for token := blob.FirstPageToken; len(token) > 0; {
		page, next, err := s.bucket.ListPage(ctx, token, pageSize, opts)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, rootblob.ErrTooMany) {
				return s.tooMany()
			}
			if errors.Is(err, rootblob.ErrNames) {
				return permanentf("max_files: one folder of so many or such long names, with those that it is in, takes more than %d MB at once; "+
					"spread its files over more folders, or narrow include and exclude", maxNamesBytes>>20)
			}
			return fmt.Errorf("list folder %q: %w", s.folder, reasonOf(err))
		}
		for _, object := range page {
			if err := s.listed(ctx, object); err != nil {
				return err
			}
		}
		token = next
	}
	return nil
}

func (s *syncer) listed(ctx context.Context, object *blob.ListObject) error {
	f := newFile(object)
	if f.isDir {
		s.couldNotRead(f.key)
	} else if takes, err := s.globs.takes(ctx, f.path); err != nil || !takes {
		return err
	}
	s.listedCount++
	if s.listedCount > s.cfg.maxFiles() {
		return s.tooMany()
	}
	if s.listedBytes += len(f.id); s.listedBytes > maxIDBytes {
		return permanentf("the paths of the files take more than %d bytes together; narrow include and exclude", maxIDBytes)
	}
	delete(s.missing, f.id)
	stored, ok := s.known[f.id]
	if ok && f.err == nil && stored.VersionToken != "" && stored.VersionToken == f.token {
		s.unchanged.Add(1)
		return nil
	}
	select {
	case s.work <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// couldNotRead keeps the documents under a folder. The ids of those with long paths have been cut.
func (s *syncer) couldNotRead(key string) {
	if len(s.unread) == maxUnread {
		s.unread = []string{""} // all ids begin so
	}
	if len(s.unread) != 1 || s.unread[0] != "" {
		s.unread = append(s.unread, key[:min(len(key), wholeIDBytes)])
	}
}

func (s *syncer) tooMany() error {
	return permanentf("max_files: the folder holds more than %d files; raise max_files (up to %d), or narrow include and exclude",
		s.cfg.maxFiles(), MaxMaxFiles)
}

// stillThere guards deletions: a folder that was removed, replaced or unmounted while it was listed ends its
// listing early, without an error.
func (s *syncer) stillThere(root *os.Root) error {
	if len(s.missing) == 0 {
		return nil
	}
	opened, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("check folder %q after listing: %w", s.folder, reasonOf(err))
	}
	named, err := os.Stat(s.folder)
	if err != nil {
		return fmt.Errorf("check folder %q after listing: %w", s.folder, reasonOf(err))
	}
	if !os.SameFile(opened, named) {
		return fmt.Errorf("check folder %q after listing: it was replaced meanwhile", s.folder)
	}
	return nil
}

// deleteMissing deletes what was not listed, but for what stands under a folder that could not be read.
func (s *syncer) deleteMissing(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(s.missing)) {
		if slices.ContainsFunc(s.unread, func(dir string) bool { return strings.HasPrefix(id, dir) }) {
			s.unchanged.Add(1)
			continue
		}
		if err := s.sink.Delete(ctx, id); err != nil {
			return err
		}
		s.deleted.Add(1)
	}
	return nil
}
