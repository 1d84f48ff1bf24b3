package googledrive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

const (
	// DefaultWorkers is how many files are downloaded at the same time.
	DefaultWorkers = 8
	// DefaultInFlightBytes bounds the content of files that are read at the same time.
	DefaultInFlightBytes = MaxMaxFileBytes
	// DefaultPageSize is what is asked for, and the most there is; the service may give less.
	DefaultPageSize = 1000
	// maxRestarts ends a sync whose tokens become useless faster than they can be used.
	maxRestarts = 3
)

// Sink takes what a sync finds; *worker.Run is one. It must be safe for concurrent use. An error of any method ends
// the sync and is returned as it is.
type Sink interface {
	// Known returns what is stored of the connector's documents, by source id. The map becomes the sync's own.
	Known(ctx context.Context) (map[string]worker.Known, error)
	// Put stores a document that is new, has changed, or has failed in a new way.
	Put(ctx context.Context, doc worker.Document) error
	// Touch stores a new title, URL and token for a document whose content is the same.
	Touch(ctx context.Context, doc worker.Document) error
	// Delete removes a document that is gone.
	Delete(ctx context.Context, sourceID string) error
	// Unchanged counts documents that need nothing.
	Unchanged(n int)
	// State decodes the state of the last completed sync, or of the last checkpoint.
	State(v any) error
	// SetState is the state once this sync has completed.
	SetState(v any) error
	// Checkpoint commits a state as soon as everything sent before it is stored, while the sync goes on.
	Checkpoint(ctx context.Context, state any) error
	// BeginListing begins a listing of everything: what it shows is marked, for the sync that goes on with it.
	BeginListing()
	// Seen marks documents that the listing has shown and that stand as they are stored.
	Seen(ctx context.Context, sourceIDs ...string) error
	// EndListing ends it.
	EndListing()
}

// Text is what can be read in a document.
type Text struct {
	// MediaType is what the content turned out to be.
	MediaType string
	// Sections are in reading order.
	Sections []chunk.Section
	// Hash tells whether two texts differ.
	Hash string
}

// Extractor turns content into text.
type Extractor interface {
	// Extract reads content. An error that OfContent knows is the content's own: it will not go away until the
	// content, or Version, changes. Any other is trouble of ours, and the content is read again.
	Extract(ctx context.Context, content []byte, name, mediaType string) (Text, error)
	// OfContent tells whether an error of Extract is the content's own.
	OfContent(err error) bool
	// Version changes whenever a document that could not be read before may be readable now. Letters and digits.
	Version() string
}

// Options tune Sync. They belong to the service, not to the connector.
type Options struct {
	// Endpoint is the base URL of the API, without /drive/v3; empty means DefaultEndpoint.
	Endpoint string
	// Client authorises, keeps to the quota and retries.
	Client *http.Client
	// Extract reads content.
	Extract Extractor
	// Chunk is the size of chunks.
	Chunk chunk.Options
	// OwnerAlone says that nobody but the connector's owner, whose account is asked, reads what is stored. Then shortcuts are
	// followed to wherever the account may read.
	OwnerAlone bool
	// Room is memory for files, from their download until their documents are sent. Its zero value has no end.
	Room room.Owned
	// Workers is how many files are downloaded at the same time; 0 means DefaultWorkers.
	Workers int
	// InFlightBytes bounds the content of the files read at the same time; 0 means DefaultInFlightBytes.
	InFlightBytes int64
	// HeldBytes bounds what is held of folders, shortcuts and their targets; 0 means DefaultHeldBytes. Where there is no room
	// for more, folders are listed level by level or stored at once, and shortcuts are asked for again.
	HeldBytes int
	// PageSize is how many items are asked for at once, up to 1,000; 0 means DefaultPageSize.
	PageSize int
	// Pause is before an answer that broke off is asked for again; it doubles. 0 means none.
	Pause time.Duration
}

// Result counts what a sync did.
type Result struct {
	// Pages were read. Listed are the items that they named and that are the connector's, each time they did; the
	// others are how the files among these went.
	Pages, Listed, Put, Touched, Unchanged, Deleted, Failed int
	// Calls were made to the API, downloads among them.
	Calls int
	// Restarted says that the service could not go on from a page token, and everything was listed again.
	Restarted bool
}

// syncer is one sync.
type syncer struct {
	cfg   Config
	opts  Options
	sink  Sink
	api   *api
	state state
	tree  *tree
	bytes *semaphore.Weighted

	// anew: nothing was synced under this configuration before.
	anew bool
	// listing: everything is listed; what it does not show is gone.
	listing bool
	// resumed: an earlier run has shown some of it.
	resumed bool
	// changed are folders that are not stored yet as they are now; come are those whose contents are to be listed; left are
	// stored ones that were reported below no root.
	changed    folders
	come, left map[string]struct{}
	// unsettled: something below a folder is still to be deleted. driveLeft: so it is below a drive that is not there any more.
	unsettled, driveLeft bool
	// unconfirmed are documents that may not be asked for, and of which nothing is known; confirming: everything is listed to find out
	// where such documents are.
	unconfirmed map[string]struct{}
	confirming  bool
	// placing are those that are asked for only to find out where they are; above are the folders of which nothing is known and in which
	// something is stored.
	placing, above map[string]struct{}
	// due are what earlier syncs have left to be looked at.
	due []string
	// shortcuts are all that are stored or were seen, by id; targets is what the changes say of theirs.
	shortcuts map[string]entry
	targets   map[string]item
	isTarget  map[string]bool

	mu        sync.Mutex
	held      int // about how many bytes of folders, shortcuts and their targets are held
	known     map[string]worker.Known
	fresh     map[string]struct{} // put by this run
	missing   map[string]struct{} // stored before the listing, and not shown by it so far
	stand     []string            // shown, and not written: to be marked
	failedNow map[string]bool     // in this sync

	// unasked counts the shortcuts that may not be asked for.
	unasked                                         atomic.Int64
	troubles                                        trouble.Row
	result                                          Result
	put, touched, unchanged, deleted, failed, calls atomic.Int64
}

// Sync brings sink up to date with what cfg names.
//
// The first sync lists everything. After each page a checkpoint is set, so that a sync that dies goes on from its last
// page. Later ones read the changes since. A page token that is no longer accepted makes a sync list everything
// again; what has not changed is not read again.
//
// What cannot be read fails as a document (Document.Err). A failure that lies in the content waits for the content
// to change; any other is tried again at the next sync. What is not there when it is asked for is kept until
// the next sync does not find it either.
func Sync(ctx context.Context, cfg Config, opts Options, sink Sink) (Result, error) {
	if err := errors.Join(cfg.Validate(), opts.Chunk.Validate()); err != nil {
		return Result{}, permanent{err}
	}
	opts = opts.withDefaults()
	s := &syncer{cfg: cfg, opts: opts, sink: sink, bytes: semaphore.NewWeighted(opts.InFlightBytes)}
	s.api = &api{
		base: strings.TrimRight(opts.Endpoint, "/"), client: opts.Client, pause: opts.Pause, calls: func() { s.calls.Add(1) },
	}
	err := s.run(ctx)
	if n := int(s.unchanged.Load()); n > 0 && err == nil {
		sink.Unchanged(n)
	}
	return s.counted(), err
}

func (o Options) withDefaults() Options {
	if o.Endpoint == "" {
		o.Endpoint = DefaultEndpoint
	}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.InFlightBytes <= 0 {
		o.InFlightBytes = DefaultInFlightBytes
	}
	if o.HeldBytes <= 0 {
		o.HeldBytes = DefaultHeldBytes
	}
	if o.PageSize <= 0 || o.PageSize > DefaultPageSize {
		o.PageSize = DefaultPageSize
	}
	return o
}

func (s *syncer) counted() Result {
	r := s.result
	r.Put, r.Touched, r.Unchanged = int(s.put.Load()), int(s.touched.Load()), int(s.unchanged.Load())
	r.Deleted, r.Failed, r.Calls = int(s.deleted.Load()), int(s.failed.Load()), int(s.calls.Load())
	return r
}

func (s *syncer) run(ctx context.Context) error {
	if err := s.sink.State(&s.state); err != nil {
		return permanent{err}
	}
	s.anew = len(s.state.Cursors) == 0
	known, err := s.sink.Known(ctx)
	if err != nil {
		return err
	}
	if s.known = known; known == nil {
		s.known = map[string]worker.Known{}
	}
	s.fresh, s.unconfirmed, s.placing = map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}
	for restarts := 0; ; {
		err := s.round(ctx)
		switch {
		case errors.Is(err, errUnplaced):
			s.confirming = true
		case !errors.Is(err, errStale):
			return err
		case restarts == maxRestarts:
			return fmt.Errorf("after starting again %d times: %w", maxRestarts, err)
		default:
			restarts++
			s.result.Restarted = true
		}
		s.state = state{Failed: s.state.Failed, Refused: s.state.Refused, Later: s.state.Later, Away: s.state.Away}
	}
}

// round does all of a sync, from where the state is.
func (s *syncer) round(ctx context.Context) error {
	news, err := s.locate(ctx)
	if err != nil {
		return err
	}
	s.begin()
	s.due = s.state.Later
	if err := s.placeGivenUp(ctx); err != nil {
		return err
	}
	if s.listing {
		if err := s.listEverything(ctx); err != nil {
			return err
		}
	}
	for _, drive := range news {
		if err := s.listNew(ctx, drive); err != nil {
			return err
		}
	}
	for _, drive := range s.state.drives() {
		if err := s.changesOf(ctx, drive); err != nil {
			return err
		}
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	return s.sink.SetState(s.next())
}

// begin builds what is known of the tree.
func (s *syncer) begin() {
	s.listing, s.resumed = len(s.state.Cursors) == 0, false
	if s.state.Listing != nil {
		s.listing, s.resumed = true, true
	}
	if s.listing && !s.resumed {
		s.sink.BeginListing()
	}
	s.tree = newTree(s.state.roots())
	s.changed, s.come, s.left, s.unsettled = folders{}, map[string]struct{}{}, map[string]struct{}{}, s.driveLeft
	s.held = 0
	s.shortcuts, s.targets, s.isTarget = map[string]entry{}, map[string]item{}, map[string]bool{}
	s.missing, s.stand, s.failedNow = map[string]struct{}{}, nil, map[string]bool{}
	for id, k := range s.known {
		if s.listing && !(s.resumed && k.Seen) {
			s.missing[id] = struct{}{}
		}
		r, ok := recordOf(k)
		if !ok || s.listing && !(s.resumed && k.Seen) {
			continue // a listing finds out by itself what there is
		}
		switch r.kind {
		case aFolder:
			s.tree.folders[id] = r.parents
		case aShortcut:
			s.shortcuts[id] = entry{id: id, kind: aShortcut, parents: r.parents, target: r.target}
			s.isTarget[r.target] = true
		}
	}
}
