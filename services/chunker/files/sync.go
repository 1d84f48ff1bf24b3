package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/files/rootblob"
	"github.com/echomind/sync/services/internal/extract"
)

// DefaultInFlightBytes bounds the content of files that are read at the same time.
const DefaultInFlightBytes = MaxMaxFileBytes

// Options tune Sync. They belong to the service, not to the connector.
type Options struct {
	// Reader reads the files. Required.
	Reader extract.Reader
	// Roots are the folders in which sources may lie; nil allows none.
	Roots *Roots
	// Workers is how many files are read at the same time; 0 means GOMAXPROCS.
	Workers int
	// InFlightBytes bounds the content of the files read at the same time; a larger file is read alone.
	// 0 means DefaultInFlightBytes (32 MiB).
	InFlightBytes int64
	// Room is memory for files, from their reading until their documents are sent. Its zero value has no bound.
	Room room.OwnerRoom
	// Chunk is the size of chunks.
	Chunk chunk.Options
	// Connector is the connector's id, for messages that name a command.
	Connector int32
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Result counts what a sync did.
type Result struct {
	source.Result
	// Whole is false when some folder below the source's could not be read. Documents under it are then
	// left as they are.
	Whole bool
	// LeftOut counts what the listing did not take.
	LeftOut LeftOut
}

// Sync updates store to the folder that cfg names.
//
// A file is read where its size or time of change differs from the stored one. Documents whose files are not listed any more
// are deleted once the listing has ended without error; where these are suspiciously many, as behind a mount point that
// suddenly lists nothing, none is deleted (source.GuardDeletions).
//
// A file that cannot be read fails as a document (Document.Err). The next sync tries it again. If the reason is in the content
// (its type, its size), the file is not read again until it, or Reader.Version, changes.
//
// Errors of the folder itself that only a change of configuration or folder can cure are worker.ErrPermanent: it never existed,
// is no folder, is not in opts.Roots, or holds more than cfg.MaxFiles files. Other errors (a folder that has vanished, or that
// cannot be listed) are worth a retry. Errors of store and ctx.Err() are returned as they are.
func Sync(ctx context.Context, cfg Config, opts Options, store source.Store) (Result, error) {
	globs, err := cfg.globs()
	if err != nil {
		return Result{}, worker.Permanent(err)
	}
	if opts.Reader == nil {
		return Result{}, errors.New("files.Options: Reader is missing")
	}
	name, err := parseURL(cfg.URL)
	if err != nil {
		return Result{}, worker.Permanent(err)
	}
	opts = opts.withDefaults()
	f := &folder{cfg: cfg, globs: globs, opts: opts, name: name}
	result, err := source.Run(ctx, store, f, source.Options{
		Connector: opts.Connector, Chunk: opts.Chunk, Workers: opts.Workers, InFlightBytes: opts.InFlightBytes, Room: opts.Room,
		Reading: opts.Reader.Version(), Unresumed: true,
	})
	return Result{Result: result, Whole: err == nil && len(f.unread) == 0, LeftOut: f.leftOut}, err
}

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(max(o.Workers, 0), runtime.GOMAXPROCS(0))
	o.InFlightBytes = cmp.Or(max(o.InFlightBytes, 0), DefaultInFlightBytes)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// pageSize bounds the entries of a listing in memory, beside the names of the open folders: 4 MB of the longest paths, whose
// keys may have 12 KB.
const pageSize = 250

// maxNamesBytes is the memory of a listing for names: in one folder a million names of 25 bytes, or 450,000 of 64. Tests lower
// it.
var maxNamesBytes = 32 << 20

// maxUnread is how many unreadable folders are remembered by name. Where there are more, nothing is deleted.
const maxUnread = 1000

// maxIDBytes bounds the source ids of one source, which the next sync reads all at once. Tests lower it.
var maxIDBytes = 256 << 20

// foldersInOne is how many folders one folder may have, beside its files. Tests lower it.
var foldersInOne = 50_000

// folder is the source.Source.
type folder struct {
	cfg    Config
	globs  globs
	opts   Options
	name   string
	bucket *blob.Bucket

	unread      []string // keys of folders that could not be read
	listedCount int
	listedBytes int // of source ids
	leftOut     LeftOut
}

// List lists everything, at each sync.
func (f *folder) List(ctx context.Context, s *source.Sync) (any, error) {
	root, private, err := openFolder(f.name, f.opts.Roots, s.First())
	if err != nil {
		return nil, err
	}
	f.bucket = rootblob.Open(root, private)
	defer f.bucket.Close()
	s.BeginListing()
	if err := f.list(ctx, s); err != nil {
		return nil, err
	}
	if err := s.Wait(); err != nil {
		return nil, err
	}
	if err := f.checkStillThere(root); err != nil {
		return nil, err
	}
	if len(f.unread) > 0 {
		s.Partial()
	}
	return struct{}{}, s.EndListing(ctx, func(id string, _ source.Stored) bool {
		return slices.ContainsFunc(f.unread, func(dir string) bool { return strings.HasPrefix(id, dir) })
	})
}

func (f *folder) list(ctx context.Context, s *source.Sync) error {
	opts := &blob.ListOptions{BeforeList: func(as func(any) bool) error {
		var l *rootblob.Listing
		if as(&l) {
			l.Skip = func(dir string) bool {
				skips := f.globs.skipsDir(ctx, dir)
				if skips {
					f.leftOut.Folders.add(dir)
				}
				return skips
			}
			l.Takes = func(file string) bool {
				takes, err := f.globs.takes(ctx, file)
				switch {
				case takes || err != nil: // addEntry returns the error
					return true
				case !f.globs.hidden && isHidden(file):
					f.leftOut.Hidden.add(file)
				default:
					f.leftOut.Filtered.add(file)
				}
				return false
			}
			l.Most, l.MostBytes = f.cfg.maxFiles()+foldersInOne, maxNamesBytes
		}
		return nil
	}}
	for token := blob.FirstPageToken; len(token) > 0; {
		page, next, err := f.bucket.ListPage(ctx, token, pageSize, opts)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, rootblob.ErrTooMany) {
				return f.tooMany()
			}
			if errors.Is(err, rootblob.ErrNames) {
				return permanentf("max_files: one folder of so many or such long names, with those that it is in, takes more than %d MB at once; "+
					"spread its files over more folders, or narrow include and exclude", maxNamesBytes>>20)
			}
			return fmt.Errorf("list folder %q: %w", f.name, reasonOf(err))
		}
		for _, object := range page {
			if err := f.addEntry(ctx, s, object); err != nil {
				return err
			}
		}
		token = next
	}
	return nil
}

func (f *folder) addEntry(ctx context.Context, s *source.Sync, object *blob.ListObject) error {
	one := newFile(object)
	if one.isDir {
		f.noteUnread(one.key)
	} else if takes, err := f.globs.takes(ctx, one.path); err != nil || !takes {
		return err
	}
	f.listedCount++
	if f.listedCount > f.cfg.maxFiles() {
		return f.tooMany()
	}
	if f.listedBytes += len(one.id); f.listedBytes > maxIDBytes {
		return permanentf("the paths of the files take more than %d bytes together; narrow include and exclude", maxIDBytes)
	}
	return s.Item(ctx, f.item(&one))
}

// noteUnread notes a folder that could not be read, and so keeps the documents under a folder. Source ids of long paths are cut.
func (f *folder) noteUnread(key string) {
	if len(f.unread) == maxUnread {
		f.unread = []string{""} // the prefix of all ids
	}
	if len(f.unread) != 1 || f.unread[0] != "" {
		f.unread = append(f.unread, key[:min(len(key), wholeIDBytes)])
	}
}

func (f *folder) tooMany() error {
	return permanentf("max_files: the folder holds more than %d files; raise max_files (up to %d), or narrow include and exclude",
		f.cfg.maxFiles(), MaxMaxFiles)
}

// checkStillThere guards deletions: a folder that was removed, replaced or unmounted while it was listed ends its
// listing early, without an error.
func (f *folder) checkStillThere(root *os.Root) error {
	opened, err := root.Stat(".")
	named, away := os.Stat(f.name)
	if err = cmp.Or(err, away); err != nil {
		return fmt.Errorf("check folder %q after listing: %w", f.name, reasonOf(err))
	}
	if !os.SameFile(opened, named) {
		return fmt.Errorf("check folder %q after listing: it was replaced meanwhile", f.name)
	}
	return nil
}
