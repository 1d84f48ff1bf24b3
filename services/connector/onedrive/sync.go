package onedrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

const (
	// DefaultPageSize is the number of items that is asked for; the service may give less.
	DefaultPageSize = 200
	// maxRestarts ends a sync whose tokens become useless faster than they can be used.
	maxRestarts = 3
	// maxLost bounds how many lost folders a cursor holds, maxLostBytes the length of an id.
	maxLost      = 50
	maxLostBytes = 200
	// maxFollows bounds how often a listing asks for changes that came meanwhile, before it removes files that it has not shown.
	maxFollows = 4
)

// Options tune Sync. Without Workers, PageSize and HeldBytes they are source.DefaultWorkers, DefaultPageSize and DefaultHeldBytes.
type Options = graph.SyncOptions

// Result counts what a sync did.
type Result struct {
	source.Result
	// Pages of changes were read.
	Pages int
	// Restarted says that the service could not go on from the stored cursor, and everything was listed again.
	Restarted bool
}

// place is the synced drive and folder.
type place struct {
	// Drive and Root are the ids of the drive and of the folder; Whole says that it is the drive's own root.
	Drive string `json:"drive,omitempty"`
	Root  string `json:"root,omitempty"`
	Whole bool   `json:"whole,omitempty"`
	// URL is a hash of the folder's URL: the files' URLs begin with it.
	URL string `json:"url,omitempty"`
}

// cursor is where a sync goes on.
type cursor struct {
	// Link is where to continue: a page of an unfinished round, or the changes since the last one. Empty: everything is listed from
	// the beginning.
	Link string `json:"link,omitempty"`
	// Paging says that Link continues a round that an earlier sync began; Listing says that this round lists everything.
	Paging  bool `json:"paging,omitempty"`
	Listing bool `json:"listing,omitempty"`
	// Lost are folders that are gone since this round began.
	Lost []string `json:"lost,omitempty"`
	// Relist has the next sync list everything: a moved folder could not be listed, or only a listing tells whether a file still
	// exists.
	Relist bool `json:"relist,omitempty"`
}

// lister is the source of one sync.
type lister struct {
	cfg    Config
	opts   Options
	api    *graph.Client
	reader graph.Reader
	s      *source.Sync
	place  place
	cursor cursor
	tree   *tree
	// listing says that everything is listed. following says that the listing is done, and changes since its beginning are read.
	listing, following bool
	// looking says that files that failed before are asked for. Their folders are asked for, too, where they are uncertain.
	looking bool
	// movedTo is the new hash of the folder's URL where it has changed since the last completed sync.
	movedTo string
	// pageFolders are the folders that the current page names.
	pageFolders map[string]struct{}
	pages       int
	restarted   bool
}

// Sync brings store up to date with the drive or folder that cfg names.
//
// A delta token that has become useless (410) makes the sync list everything again; what has not changed is not read again. Files
// are removed when the service reports them as gone, with their folder at the end of a round, and at the end of a listing of
// everything that did not show them.
func Sync(ctx context.Context, cfg Config, opts Options, store source.Store) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, worker.Permanent(err)
	}
	opts.HeldBytes, opts.PageSize = cmp.Or(opts.HeldBytes, DefaultHeldBytes), cmp.Or(opts.PageSize, DefaultPageSize)
	reader, err := opts.Reader(cmp.Or(cfg.MaxFileBytes, DefaultMaxFileBytes))
	if err != nil {
		return Result{}, err
	}
	l := &lister{cfg: cfg, opts: opts, api: reader.Client, reader: reader, pageFolders: map[string]struct{}{}}
	engine := opts.Engine(maxRetried)
	engine.MaxItems = cmp.Or(cfg.MaxFiles, DefaultMaxFiles)
	engine.TooMany = fmt.Errorf("max_files: the drive holds more than %d files; raise max_files (up to %d), or name a folder of it", engine.MaxItems, MaxMaxFiles)
	engine.Answers = func(ctx context.Context) error {
		_, err := l.api.Item(ctx, l.place.Drive, l.place.Root)
		return err
	}
	result, err := source.Run(ctx, store, l, engine)
	return Result{Result: result, Pages: l.pages, Restarted: l.restarted}, err
}

// List gives what has changed since the last sync, or everything.
func (l *lister) List(ctx context.Context, s *source.Sync) (any, error) {
	l.s = s
	if err := errors.Join(s.Cursor(&l.cursor), s.Place(&l.place)); err != nil {
		return nil, err
	}
	if err := l.locate(ctx); err != nil {
		return nil, err
	}
	switch {
	case l.cursor.Listing:
		s.ResumeListing()
		l.listing = true
	case l.cursor.Link == "" || l.cursor.Relist:
		l.beginListing()
	}
	goesOn := l.cursor.Paging
	if err := l.wholeRound(ctx); err != nil {
		return nil, err
	}
	if goesOn { // the resumed round may have begun long ago
		if err := l.wholeRound(ctx); err != nil {
			return nil, err
		}
	}
	l.cursor.Paging, l.cursor.Listing = false, false
	l.looking, l.tree = true, nil
	return &l.cursor, nil // Look may change it
}

// beginListing lists everything from the beginning.
func (l *lister) beginListing() {
	l.cursor = cursor{}
	l.listing, l.following = true, false
	l.s.BeginListing()
	l.tree = nil
}

// wholeRound reads a round, and removes the files that only its end shows to be gone.
func (l *lister) wholeRound(ctx context.Context) error {
	l.following = false
	for follows := 0; ; follows++ {
		listed := l.s.Result().Listed
		if err := l.round(ctx); err != nil {
			return err
		}
		// A file that the listing has not shown may have changed since it began: then it is in the changes after it, unless it
		// changes again.
		if !l.listing || !l.hasMissing() || l.following && (l.s.Result().Listed == listed || follows >= maxFollows) {
			break
		}
		l.following = true
	}
	if l.movedTo != "" {
		if err := l.listTree(ctx, l.place.Root, 0); err != nil {
			return err
		}
		l.place.URL, l.movedTo = l.movedTo, ""
		if err := l.s.SetPlace(l.place); err != nil {
			return err
		}
	}
	if l.listing {
		if err := l.s.EndListing(ctx, nil); err != nil {
			return err
		}
		l.listing = false
	}
	return l.removeLost(ctx)
}

// hasMissing tells whether a stored file has not been shown by the listing.
func (l *lister) hasMissing() bool {
	for id := range l.s.All() {
		if l.s.Missing(id) {
			return true
		}
	}
	return false
}

// round reads pages until there are no more changes.
func (l *lister) round(ctx context.Context) error {
	for restarts := 0; ; {
		link := l.cursor.Link
		if link == "" {
			link = l.api.ItemDelta(l.place.Drive, l.place.Root, l.opts.PageSize, "")
		}
		page, err := l.api.Items(ctx, link)
		if start, resync := graph.Resync(err); resync {
			if restarts++; restarts > maxRestarts {
				return fmt.Errorf("list changes, after starting again %d times: %w", maxRestarts, err)
			}
			// Of both kinds of resync the service's version is the right one: nothing is ever written here, so there are no local
			// changes to upload.
			l.beginListing()
			l.restarted = true
			if start != "" && l.api.CheckLink(start) == nil {
				l.cursor.Link = start
			}
			continue
		}
		if err != nil {
			return l.rootError(fmt.Errorf("list changes: %w", err), "the drive or folder")
		}
		l.pages++
		if err := l.page(ctx, page.Value); err != nil {
			return err
		}
		next := page.Next
		if next == "" || next == link {
			next = page.Delta
		}
		if next == "" {
			return errors.New("list changes: the answer does not say how to go on")
		}
		if err := l.api.CheckLink(next); err != nil {
			return fmt.Errorf("list changes: %w", err)
		}
		if l.cursor.Link = next; next == page.Delta {
			return nil
		}
		if err := l.checkpoint(ctx); err != nil {
			return err
		}
	}
}

// checkpoint sets a checkpoint, unless the state of this round does not fit in the cursor.
func (l *lister) checkpoint(ctx context.Context) error {
	long := func(id string) bool { return len(id) > maxLostBytes }
	if l.following || len(l.cursor.Lost) > maxLost || slices.ContainsFunc(l.cursor.Lost, long) {
		return nil
	}
	at := l.cursor
	at.Paging, at.Listing = true, l.listing
	return l.s.Checkpoint(ctx, at)
}
