package googledrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/extraction"
)

const (
	// DefaultPageSize is the number of items that is asked for, and the largest possible; the service may give less.
	DefaultPageSize = 1000
	// DefaultHeldBytes bounds how much a listing holds of folders. 32,000 folders with usual names take it.
	DefaultHeldBytes = 16 << 20
	// maxRestarts ends a sync whose tokens become useless faster than they can be used.
	maxRestarts = 3
)

// Options tune Sync. They belong to the service, not to the connector.
type Options struct {
	// Connector, Chunk, Room, Workers and Clean are as in source.Options.
	Connector int32
	Chunk     chunk.Options
	Room      source.Room
	Workers   int
	Clean     func(string) string
	// Endpoint is the base URL of the API, without /drive/v3; empty means DefaultEndpoint.
	Endpoint string
	// Client authorises, keeps to the quota and retries.
	Client *http.Client
	// Extract reads content.
	Extract extraction.Extractor
	// OwnerAlone says that only the connector's owner, whose account is used, reads the documents. Then shortcuts are followed to
	// whatever the account may read.
	OwnerAlone bool
	// HeldBytes bounds how much is held of the folders of a drive until their place is known; 0 means DefaultHeldBytes. Beyond it,
	// folders are listed level by level.
	HeldBytes int
	// PageSize is how many items are asked for at once, up to 1,000; 0 means DefaultPageSize.
	PageSize int
	// Pause is before an answer that broke off is asked for again; it doubles. 0 means none.
	Pause time.Duration
}

// Result counts what a sync did.
type Result struct {
	source.Result
	// Pages were read, and Calls were made to the API, downloads among them.
	Pages, Calls int
	// Restarted says that a page token was refused, and everything was listed again.
	Restarted bool
}

// syncer is the source of one sync. It is a source.Looker.
type syncer struct {
	cfg    Config
	opts   Options
	store  source.Store
	api    *api
	sync   *source.Sync
	cursor cursor
	tree   *tree

	// listing says that everything is listed, and that items that are not shown are gone.
	listing bool
	// toList are folders whose contents must be listed, with their drives; missed are folders that a listing of everything has not
	// found.
	toList, missed map[string]string
	// toCheck are items that earlier syncs have left to be looked at.
	toCheck []string
	// ending says that all listings and changes of the service were read.
	ending bool
	// detached says that a stored item may be below no root any more. lost are folders that two syncs did not find, without a
	// change that reports them as gone: their contents are lost with them.
	detached bool
	lost     map[string]bool
	// unplaced are stored files that a change has named and whose folder is below no root so far.
	unplaced map[string]item
	// goneFolders are folders and drives that the changes report as gone, or that are below no root.
	goneFolders map[string]bool
	// targets holds the targets of all shortcuts; true: the changes have named the target.
	targets map[string]bool
	// namesFetched counts the shortcuts that were asked for because their memo has no name.
	namesFetched int

	mu        sync.Mutex // of cursor.Later
	pagesRead int
	calls     atomic.Int64
	restarted bool
}

// Sync brings store up to date with the drive or folder of cfg.
//
// The first sync lists everything. After each page a checkpoint is set, so that a sync that dies goes on from its last
// page. Later ones read the changes since. A page token that is no longer accepted makes a sync list everything
// again; what has not changed is not read again.
func Sync(ctx context.Context, cfg Config, opts Options, store source.Store) (Result, error) {
	if err := errors.Join(cfg.Validate(), opts.Chunk.Validate()); err != nil {
		return Result{}, worker.Permanent(err)
	}
	opts = opts.withDefaults()
	s := &syncer{cfg: cfg, opts: opts, store: store}
	s.api = &api{
		base: strings.TrimRight(opts.Endpoint, "/"), client: opts.Client, pause: opts.Pause, calls: func() { s.calls.Add(1) },
	}
	done, err := source.Run(ctx, store, s, source.Options{
		Connector: opts.Connector, Chunk: opts.Chunk, Workers: opts.Workers, Room: opts.Room,
		Reading: opts.Extract.Version(), MaxItems: cfg.maxFiles(),
		TooMany: fmt.Errorf("max_files: there are more than %d files and folders; raise max_files (up to %d), or sync one folder",
			cfg.maxFiles(), MaxMaxFiles),
		Ends: endsSync, Answers: s.answers, Clean: opts.Clean,
	})
	return Result{Result: done, Pages: s.pagesRead, Calls: int(s.calls.Load()), Restarted: s.restarted}, err
}

func (o Options) withDefaults() Options {
	o.Endpoint, o.HeldBytes = cmp.Or(o.Endpoint, DefaultEndpoint), cmp.Or(o.HeldBytes, DefaultHeldBytes)
	if o.PageSize <= 0 || o.PageSize > DefaultPageSize {
		o.PageSize = DefaultPageSize
	}
	return o
}

// List lists everything, or what has changed since the cursor. Its cursor is a pointer: Look may add to it.
func (s *syncer) List(ctx context.Context, sync *source.Sync) (any, error) {
	s.sync = sync
	if err := sync.Cursor(&s.cursor); err != nil {
		return nil, err
	}
	for restarts := 0; ; restarts++ {
		err := s.round(ctx)
		if !errors.Is(err, errStale) {
			s.cursor.Unreported = false // the engine knows the lost items
			return &s.cursor, err
		}
		if restarts == maxRestarts {
			return nil, fmt.Errorf("after starting again %d times: %w", maxRestarts, err)
		}
		if err := s.sync.Wait(); err != nil {
			return nil, err
		}
		s.restarted = true
		s.cursor = cursor{Later: s.cursor.Later}
	}
}

// round lists, or applies the changes, from the cursor to the end.
func (s *syncer) round(ctx context.Context) error {
	news, err := s.locate(ctx)
	if err != nil {
		return err
	}
	s.toCheck = append(s.beginRound(), s.cursor.Later...)
	if s.listing {
		err = s.listEverything(ctx)
	} else {
		err = s.checkDue(ctx)
	}
	if err != nil {
		return err
	}
	for _, drive := range news {
		if err := s.listNew(ctx, drive); err != nil {
			return err
		}
	}
	if err := s.sync.Wait(); err != nil { // a change during the reading is applied by this sync
		return err
	}
	for _, drive := range s.cursor.drives() {
		if err := s.applyChanges(ctx, drive); err != nil {
			return err
		}
	}
	s.ending = true
	if s.listing {
		if err := s.checkDue(ctx); err != nil {
			return err
		}
	}
	return s.endRound(ctx)
}

// beginRound builds the tree from the memos. It returns folders that have failed: they were away, or their deletion was given up,
// and their stored place may be wrong.
func (s *syncer) beginRound() (doubtful []string) {
	s.ending = false
	s.listing = len(s.cursor.Cursors) == 0 || s.cursor.Listing != nil
	switch {
	case s.cursor.Listing != nil:
		s.sync.ResumeListing()
	case s.listing:
		s.sync.BeginListing()
	}
	s.tree = newTree(s.cursor.Roots)
	s.lost, s.goneFolders, s.unplaced = map[string]bool{}, map[string]bool{}, map[string]item{}
	s.toList, s.missed, s.targets, s.detached = map[string]string{}, map[string]string{}, map[string]bool{}, s.cursor.Unreported
	for id, of := range s.sync.All() {
		if s.sync.Missing(id) {
			continue // the listing shows what exists
		}
		switch m := memoOf(of); m.Kind {
		case kindFolder:
			s.tree.folders[id] = m.Parents
			if of.Failed != source.None {
				doubtful = append(doubtful, id)
			}
		case kindShortcut:
			s.targets[m.Target] = false
		}
	}
	return doubtful
}

// endRound does what depends on the whole listing.
func (s *syncer) endRound(ctx context.Context) error {
	maps.Copy(s.toList, s.missed)
	if err := s.listQueued(ctx, notTrashed); err != nil {
		return err
	}
	if s.listing {
		if err := s.sync.EndListing(ctx, nil); err != nil {
			return err
		}
		s.listing = false
	}
	if err := s.sweep(ctx); err != nil {
		return err
	}
	return s.shortcuts(ctx, maxLooks)
}

// sweep removes items that are no longer below a root because a change says so. Any other item that is below no root is lost.
func (s *syncer) sweep(ctx context.Context) error {
	if err := s.sync.Wait(); err != nil {
		return err
	}
	for id, f := range s.unplaced {
		if parents, in := s.tree.place(f.Parents); !in {
			if err := s.sync.Remove(ctx, id); err != nil {
				return err
			}
		} else if err := s.files(ctx, []item{f}, false); err != nil {
			return fmt.Errorf("%s in %v: %w", id, parents, err)
		}
	}
	clear(s.unplaced)
	there, stay := s.tree.without(s.lost), []string{}
	for id, of := range s.sync.All() {
		m := memoOf(of)
		switch {
		case of.Memo == nil || s.lost[id] || there.holdsItem(id, m):
		case s.tree.isBelow(id, m, s.goneFolders):
			if err := s.sync.Remove(ctx, id); err != nil {
				return err
			}
		case !s.sync.MarkLost(id): // it was given, so its folders must exist
			stay = append(stay, id)
		}
	}
	for _, id := range stay {
		of, _ := s.sync.Stored(id)
		for folder := range s.tree.above(id, memoOf(of)) {
			if s.lost[folder] {
				delete(s.lost, folder)
				s.sync.UnmarkLost(folder)
			}
		}
	}
	s.detached = false
	return nil
}

// answers asks for the synced folder.
func (s *syncer) answers(ctx context.Context) error {
	_, err := s.api.item(ctx, s.cursor.Roots[s.cursor.drives()[0]], "")
	return err
}
