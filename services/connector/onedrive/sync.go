package onedrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/again"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

// ErrPermanent marks errors that only a change of the configuration, or of the drive, can mend.
var ErrPermanent = graph.ErrPermanent

const (
	// DefaultWorkers is how many files are downloaded at the same time.
	DefaultWorkers = 8
	// DefaultInFlightBytes bounds the content of files that are read at the same time.
	DefaultInFlightBytes = MaxMaxFileBytes
	// DefaultPageSize is what is asked for; the service may give less.
	DefaultPageSize = 200
	// maxRestarts ends a sync whose tokens become useless faster than they can be used.
	maxRestarts = 3
	// maxFollows bounds how often a listing asks for what has changed meanwhile before it deletes what it has not shown.
	maxFollows = 4
)

// Options tune Sync. They belong to the service, not to the connector.
type Options struct {
	// Endpoint is the base URL of Microsoft Graph; empty means graph.DefaultEndpoint.
	Endpoint string
	// API authorises, keeps to the quota and retries. Plain downloads by pre-authenticated URL, and must not
	// authorise.
	API, Plain *http.Client
	// Extract reads content.
	Extract graph.Extractor
	// Chunk is the size of chunks.
	Chunk chunk.Options
	// Room is memory for files, from their download until their documents are sent. Its zero value has no end.
	Room room.Owned
	// Workers is how many files are downloaded at the same time; 0 means DefaultWorkers.
	Workers int
	// InFlightBytes bounds the content of the files read at the same time; 0 means DefaultInFlightBytes.
	InFlightBytes int64
	// HeldBytes bounds what is held of folders that are not remembered with documents, or that are to be listed; 0 means
	// DefaultHeldBytes. Where there is no room for more, folders are asked for again.
	HeldBytes int
	// PageSize is how many items are asked for at once; 0 means DefaultPageSize.
	PageSize int
	// Pause is before an answer that broke off is asked for again; it doubles. 0 means none.
	Pause time.Duration
}

// Result counts what a sync did.
type Result struct {
	// Pages were read. Listed are the files they named, each time they did; the others are how those went.
	Pages, Listed, Put, Touched, Unchanged, Deleted, Failed int
	// Restarted says that the service could not go on from the stored cursor, and everything was listed again.
	Restarted bool
}

// state is what a connector's state holds.
type state struct {
	// Drive and Root are the ids of the drive and of the folder that is synced; Whole says that it is the drive's
	// own root.
	Drive string `json:"drive,omitempty"`
	Root  string `json:"root,omitempty"`
	Whole bool   `json:"whole,omitempty"`
	// URL is a hash of where that folder is: the documents' URLs begin with it.
	URL string `json:"url,omitempty"`
	// Link is where to go on: a page of an unfinished listing, or the changes since the last.
	Link string `json:"link,omitempty"`
	// Paging says that Link continues a round that an earlier sync began; Listing that this round lists everything.
	Paging  bool `json:"paging,omitempty"`
	Listing bool `json:"listing,omitempty"`
	// Unlisted are folders that could not be listed when what lies below them may have changed its place.
	Unlisted []string `json:"unlisted,omitempty"`
	// Failed and Refused are what the last sync has tried again of what could not be read, and of what could not be stored.
	Failed  again.Share `json:"failed,omitzero"`
	Refused again.Share `json:"refused,omitzero"`
}

// syncer is one sync.
type syncer struct {
	cfg    Config
	opts   Options
	sink   graph.Sink
	api    *graph.Client
	reader graph.Reader
	state  state
	bytes  *semaphore.Weighted
	tree   *tree

	// missing is what a listing has not shown yet of what was stored before it: what is left of it at its end is gone.
	listing bool
	missing map[string]struct{}
	// following: the listing is done, and what has changed since it began is read.
	following bool
	// movedTo is the folder's URL where it has changed since the last sync that completed.
	movedTo string
	// named are the folders that the page names.
	named map[string]struct{}
	// lost are the folders that have gone in this round.
	lost int
	// unplaced says that documents are stored with which nothing is remembered, not even where they are; went, that a folder has gone in
	// this sync that may have held some; unconfirmed are those that may not be asked for.
	unplaced, went bool
	unconfirmed    map[string]struct{}
	// placing are those that are asked for only to find out where they are.
	placing map[string]struct{}
	// confirming: everything is listed to find out where they are.
	confirming bool
	// waiting is about how many bytes the folders take that are to be listed.
	waiting int

	mu    sync.Mutex
	known map[string]worker.Known
	fresh map[string]struct{} // put by this sync
	stand []string            // shown by the listing, and not written: to be marked

	troubles                                 trouble.Row
	result                                   Result
	put, touched, unchanged, deleted, failed atomic.Int64
}

// Sync brings sink up to date with the drive or folder that cfg names.
//
// After each page a checkpoint is set, so that a first sync that dies goes on from its last page. A delta token that
// has become useless (410) makes the sync list everything again; what has not changed is not read again. Documents
// are deleted as the service says so, with their folder at the end of a round, and at the end of a listing of
// everything if it did not show them.
//
// What cannot be read fails as a document (Document.Err). A failure that lies in the content waits for the content
// to change; any other is tried again at the next sync.
func Sync(ctx context.Context, cfg Config, opts Options, sink graph.Sink) (Result, error) {
	if err := errors.Join(cfg.Validate(), opts.Chunk.Validate()); err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	opts = opts.withDefaults()
	api, err := graph.New(graph.Options{Endpoint: opts.Endpoint, API: opts.API, Plain: opts.Plain, Pause: opts.Pause})
	if err != nil {
		return Result{}, err
	}
	s := &syncer{cfg: cfg, opts: opts, sink: sink, api: api, bytes: semaphore.NewWeighted(opts.InFlightBytes)}
	s.named, s.unconfirmed, s.placing = map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}
	s.reader = graph.Reader{Client: api, Extract: opts.Extract, MaxBytes: cfg.maxFileBytes()}
	err = s.run(ctx)
	if n := int(s.unchanged.Load()); n > 0 && err == nil {
		sink.Unchanged(n)
	}
	return s.counted(), err
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.InFlightBytes <= 0 {
		o.InFlightBytes = DefaultInFlightBytes
	}
	if o.HeldBytes <= 0 {
		o.HeldBytes = DefaultHeldBytes
	}
	if o.PageSize <= 0 {
		o.PageSize = DefaultPageSize
	}
	return o
}

func (s *syncer) counted() Result {
	r := s.result
	r.Put, r.Touched, r.Unchanged = int(s.put.Load()), int(s.touched.Load()), int(s.unchanged.Load())
	r.Deleted, r.Failed = int(s.deleted.Load()), int(s.failed.Load())
	return r
}

func (s *syncer) run(ctx context.Context) error {
	if err := s.sink.State(&s.state); err != nil {
		return fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	if err := s.locate(ctx); err != nil {
		return err
	}
	known, err := s.sink.Known(ctx)
	if err != nil {
		return err
	}
	s.known = maps.Clone(known)
	if s.known == nil {
		s.known = map[string]worker.Known{}
	}
	s.fresh = map[string]struct{}{}
	s.tree = newTree(s.state.Root, s.known)
	began := s.state.Link == ""
	switch {
	case began:
		s.beginListing()
	case s.state.Listing:
		s.expect(false)
	}
	failed := map[string]string{}
	if !began {
		failed = s.failedBefore()
	}
	unlisted := s.state.Unlisted
	delta, err := s.wholeRound(ctx)
	if err != nil {
		return err
	}
	s.lost = 0
	if err := s.listUnlisted(ctx, unlisted); err != nil {
		return err
	}
	if s.state.Paging {
		// It shows the drive as of when it began, which may be long ago.
		s.state.Link, s.lost = delta, 0
		if delta, err = s.wholeRound(ctx); err != nil {
			return err
		}
	}
	if !began && !s.result.Restarted {
		if delta, err = s.makeUp(ctx, failed, delta); err != nil {
			return err
		}
	}
	if err := s.bounded(1); err != nil {
		return err
	}
	return s.sink.SetState(s.after(delta))
}

// after is the state once all is done up to a delta.
func (s *syncer) after(delta string) state {
	at := s.state
	at.Link, at.Paging, at.Listing = delta, false, false
	return at
}

// wholeRound reads a round and settles what only its end shows.
func (s *syncer) wholeRound(ctx context.Context) (delta string, err error) {
	s.following = false
	for follows := 0; ; follows++ {
		listed := s.result.Listed
		if delta, err = s.round(ctx); err != nil {
			return "", err
		}
		// What a listing has not shown may have changed since it began: then it is in the changes after it, unless it changes again.
		if !s.listing || len(s.missing) == 0 || s.following && (s.result.Listed == listed || follows >= maxFollows) {
			break
		}
		s.following, s.state.Link = true, delta
	}
	if s.movedTo != "" {
		if err := s.under(ctx, s.state.Root, 0); err != nil {
			return "", err
		}
		s.state.URL, s.movedTo = s.movedTo, ""
	}
	return delta, s.settle(ctx)
}

// round reads pages until there are no more changes, and returns where to go on next time.
func (s *syncer) round(ctx context.Context) (delta string, err error) {
	restarts := 0
	for {
		link := s.state.Link
		if link == "" {
			link = s.api.ItemDelta(s.state.Drive, s.state.Root, s.opts.PageSize, "")
		}
		page, err := s.api.Items(ctx, link)
		if start, resync := graph.Resync(err); resync {
			if restarts++; restarts > maxRestarts {
				return "", fmt.Errorf("list changes, after starting again %d times: %w", maxRestarts, err)
			}
			// Of both kinds of resync the service's version is the right one: nothing is ever written here, so
			// there are no changes of our own to upload.
			s.beginListing()
			s.result.Restarted = true
			if s.state.Link = ""; start != "" && s.api.CheckLink(start) == nil {
				s.state.Link = start
			}
			continue
		}
		if err != nil {
			return "", graph.AsPermanent(fmt.Errorf("list changes: %w", err), "the drive or folder")
		}
		s.result.Pages++
		if err := s.page(ctx, page.Value); err != nil {
			return "", err
		}
		switch {
		case page.Next != "" && page.Next != link:
			if err := s.api.CheckLink(page.Next); err != nil {
				return "", fmt.Errorf("list changes: %w", err)
			}
			s.state.Link = page.Next
			if err := s.checkpoint(ctx); err != nil {
				return "", err
			}
		case page.Delta != "":
			if err := s.api.CheckLink(page.Delta); err != nil {
				return "", fmt.Errorf("list changes: %w", err)
			}
			return page.Delta, nil
		default:
			return "", errors.New("list changes: the answer does not say how to go on")
		}
	}
}

// beginListing lists everything from the beginning.
func (s *syncer) beginListing() {
	s.sink.BeginListing()
	s.lost, s.following = 0, false
	s.expect(true)
	s.tree = newTree(s.state.Root, s.known)
}

// expect notes what a listing must show: what is stored and was not shown by the part of it that an earlier sync has listed. Only
// its mark tells that: what semantic has refused, or given up, has neither token nor hash, as what nobody has listed.
func (s *syncer) expect(begins bool) {
	s.listing, s.missing, s.stand = true, map[string]struct{}{}, nil
	for id, k := range s.known {
		if begins || !k.Seen {
			s.missing[id] = struct{}{}
		}
	}
}

// standsAsStored: nothing has to be written.
func (s *syncer) standsAsStored(id string) {
	s.unchanged.Add(1)
	if !s.listing {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stand = append(s.stand, id)
}

// markSeen says which documents of a page stand as they are stored.
func (s *syncer) markSeen(ctx context.Context) error {
	s.mu.Lock()
	stand := s.stand
	s.stand = nil
	s.mu.Unlock()
	if !s.listing || len(stand) == 0 {
		return nil
	}
	return s.sink.Seen(ctx, stand...)
}

// checkpoint lets a sync that dies go on from here.
func (s *syncer) checkpoint(ctx context.Context) error {
	if s.lost > 0 || s.went && s.unplaced || s.following {
		return nil // the folders that are gone are known to this round only
	}
	at := s.state
	at.Paging, at.Listing = true, s.listing
	return s.sink.Checkpoint(ctx, at)
}
