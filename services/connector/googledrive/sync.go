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
	// DefaultPageSize is what is asked for, and the most there is; the service may give less.
	DefaultPageSize = 1000
	// DefaultHeldBytes bounds what a listing holds of folders. 32,000 folders with usual names take it.
	DefaultHeldBytes = 16 << 20
	// maxRestarts ends a sync whose tokens become useless faster than they can be used.
	maxRestarts = 3
)

// Options tune Sync. They belong to the service, not to the connector.
type Options struct {
	// Connector, Chunk, Room, Workers and Clean are those of source.Options.
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
	// OwnerAlone says that nobody but the connector's owner, whose account is asked, reads what is stored. Then shortcuts are
	// followed to wherever the account may read.
	OwnerAlone bool
	// HeldBytes bounds what is held of the folders of a drive until it is known where they are; 0 means DefaultHeldBytes. Where there is
	// no room for more, folders are listed level by level.
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
	// Restarted says that the service could not go on from a page token, and everything was listed again.
	Restarted bool
}

// syncer is a drive, as one sync sees it. It is a source.Looker.
type syncer struct {
	cfg   Config
	opts  Options
	store source.Store
	api   *api
	sync  *source.Sync
	cursor    cursor
	tree  *tree

	// listing: everything is listed, and what is not shown is gone.
	listing bool
	// toList are folders whose contents are to be listed, and their drives; missed are those that a listing of everything has not found.
	toList, missed map[string]string
	// toCheck are what earlier syncs have left to be looked at.
	toCheck []string
	// ending: everything that the service lists and tells by itself was read.
	ending bool
	// detached: something that is stored may be below no root any more. lost are the folders that were twice not there, though nothing says that
	// they are gone: what is below them goes with them, should they go.
	detached bool
	lost  map[string]bool
	// unplaced are stored files that the changes have named in a folder that is below no root so far.
	unplaced map[string]item
	// goneFolders are the folders and drives that the changes say are gone, or below no root.
	goneFolders map[string]bool
	// targets has the targets of all shortcuts; true: the changes have named it.
	targets map[string]bool
	// namesFetched counts the shortcuts that were asked for because their memo does not have their name.
	namesFetched int

	mu        sync.Mutex // of cursor.Later
	pagesRead int
	calls     atomic.Int64
	restarted bool
}

// Sync brings store up to date with what cfg names.
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
			s.cursor.Unreported = false // the engine knows what is lost
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

// round does all of a listing, from where the cursor is.
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
	if err := s.sync.Wait(); err != nil { // what changes while it is read is told of by this sync
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

// beginRound builds what is known of the tree. It returns folders that have failed: they were away, or their deletion was given up, and what is
// known of their place may be wrong.
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
			continue // a listing finds out by itself what there is
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

// endRound does what depends on all that was listed.
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

// sweep removes what is no longer below a root because of what the changes have named. Anything else that is below none is lost.
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
		case !s.sync.MarkLost(id): // it was given, so what it is in must be there
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

// answers asks for what is synced.
func (s *syncer) answers(ctx context.Context) error {
	_, err := s.api.item(ctx, s.cursor.Roots[s.cursor.drives()[0]], "")
	return err
}
