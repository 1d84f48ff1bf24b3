package teams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/again"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

// ErrPermanent marks errors that only a change of the configuration, or of the channel, can mend.
var ErrPermanent = graph.ErrPermanent

const (
	// DefaultWorkers is how many attached files are downloaded at the same time.
	DefaultWorkers = 2
	// maxRestarts ends a sync whose tokens become useless faster than they can be used.
	maxRestarts = 3
	// maxLinkBytes bounds the two links of a state together.
	maxLinkBytes = 40 << 10
	// maxAgain is how many threads that failed, or whose attachments did, are read again beside a delta until it shows that it helps;
	// which ones is left to chance, so that all have their turn.
	maxAgain = 100
)

// Options tune Sync. They belong to the service, not to the connector.
type Options struct {
	// Endpoint is the base URL of Microsoft Graph; empty means graph.DefaultEndpoint.
	Endpoint string
	// API authorises, keeps to the quota and retries. Plain downloads by pre-authenticated URL, and must not
	// authorise.
	API, Plain *http.Client
	// Extract reads attached files.
	Extract graph.Extractor
	// Chunk is the size of chunks.
	Chunk chunk.Options
	// Room is memory for files, from their download until their documents are sent. Its zero value has no end.
	Room room.Owned
	// Workers is how many attached files are downloaded at the same time; 0 means DefaultWorkers.
	Workers int
	// PageSize is how many threads are asked for at once; 0 means 50, the most that the service takes.
	PageSize int
	// Pause is before an answer that broke off is asked for again; it doubles. 0 means none.
	Pause time.Duration
}

// Result counts what a sync did.
type Result struct {
	// Pages were read. Threads were looked at; the others count documents, of threads and attached files.
	Pages, Threads, Put, Touched, Unchanged, Deleted, Failed int
	// Restarted says that the service could not go on from the stored cursor, and everything was listed again.
	Restarted bool
}

// state is what a connector's state holds.
type state struct {
	// Since is when the listing of everything began, by the service's clock: the first delta begins there.
	Since string `json:"since,omitempty"`
	// Listing is where an unfinished listing goes on.
	Listing string `json:"listing,omitempty"`
	// Listed says that the listing is done.
	Listed bool `json:"listed,omitempty"`
	// Delta is where the changes of messages go on; Paging says that it is in the middle of a round.
	Delta  string `json:"delta,omitempty"`
	Paging bool   `json:"paging,omitempty"`
	// Drive and Folder are the channel's library, Files where the changes in it go on. A channel may have none so far.
	Drive  string `json:"drive,omitempty"`
	Folder string `json:"folder,omitempty"`
	Files  string `json:"files,omitempty"`
	// Away says that the library was not there at the last sync.
	Away bool `json:"away,omitempty"`
	// Gone are attached files that are gone and may come back; GoneMore says that there were very many.
	Gone     []gone `json:"gone,omitempty"`
	GoneMore bool   `json:"gone_more,omitempty"`
	// Failed is what the last sync has tried again.
	Failed again.Share `json:"failed,omitzero"`
}

// syncer is one sync.
type syncer struct {
	cfg    Config
	opts   Options
	sink   graph.Sink
	api    *graph.Client
	reader graph.Reader
	state  state

	// now is the service's time as far as it was said.
	now time.Time
	// missing are the threads that were stored before the listing and that it has not shown yet; stand are those that it has shown
	// and that are not written: to be marked.
	missing map[string]struct{}
	stand   []string
	// told: the library has said that something is gone of which nothing is remembered.
	told bool
	// placing are the threads that are read again only to find out which files theirs are.
	placing map[string]struct{}
	// notThere are the threads that neither this sync nor an earlier one has found.
	notThere []string
	// shown are the threads that this sync has looked at.
	shown map[string]struct{}

	mu    sync.Mutex
	lost  int // attached files that have gone in this sync
	known map[string]worker.Known
	fresh map[string]struct{} // put by this sync
	// attached are the stored attachments of each thread.
	attached map[string]map[string]struct{}

	troubles, silent                         trouble.Row // of files, and of threads
	result                                   Result
	put, touched, unchanged, deleted, failed atomic.Int64
}

// Sync brings sink up to date with the channel that cfg names.
//
// After each page a checkpoint is set, so that a first sync that dies goes on from its last page. A thread is stored
// again when its text has changed, and deleted when nothing of it is left to read. An attached file that cannot be read
// fails as a document; one that is gone, or lies elsewhere than in the channel's library, is none. What a delta or a whole listing calls
// gone is deleted at once; what is only not there when it is asked for, once it is not there at the next sync either. A file that
// comes back is stored again.
func Sync(ctx context.Context, cfg Config, opts Options, sink graph.Sink) (Result, error) {
	if err := errors.Join(cfg.Validate(), opts.Chunk.Validate()); err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	if opts.Workers <= 0 {
		opts.Workers = DefaultWorkers
	}
	if opts.PageSize <= 0 || opts.PageSize > 50 {
		opts.PageSize = 50
	}
	api, err := graph.New(graph.Options{Endpoint: opts.Endpoint, API: opts.API, Plain: opts.Plain, Pause: opts.Pause})
	if err != nil {
		return Result{}, err
	}
	s := &syncer{
		cfg: cfg, opts: opts, sink: sink, api: api, shown: map[string]struct{}{}, placing: map[string]struct{}{},
		reader: graph.Reader{Client: api, Extract: opts.Extract, MaxBytes: cfg.maxFileBytes()},
	}
	err = s.run(ctx)
	if n := int(s.unchanged.Load()); n > 0 && err == nil {
		sink.Unchanged(n)
	}
	s.result.Put, s.result.Touched, s.result.Unchanged = int(s.put.Load()), int(s.touched.Load()), int(s.unchanged.Load())
	s.result.Deleted, s.result.Failed = int(s.deleted.Load()), int(s.failed.Load())
	return s.result, err
}

func (s *syncer) run(ctx context.Context) error {
	if err := s.sink.State(&s.state); err != nil {
		return fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	if err := s.readKnown(ctx); err != nil {
		return err
	}
	changes, err := s.library(ctx)
	if err != nil {
		return err
	}
	failed := s.failedThreads(changes.gone)
	s.backIn(failed)
	for restarts := 0; ; restarts++ {
		err := s.messages(ctx)
		if _, resync := graph.Resync(err); !resync {
			if err != nil {
				return graph.AsPermanent(err, "team_id, channel_id")
			}
			break
		}
		if restarts == maxRestarts {
			return fmt.Errorf("after starting again %d times: %w", maxRestarts, err)
		}
		s.result.Restarted = true
		s.listAgain()
	}
	if err := s.recheck(ctx, failed); err != nil {
		return err
	}
	if err := s.changed(ctx, changes); err != nil {
		return err
	}
	if err := s.removeNotThere(ctx); err != nil {
		return err
	}
	return s.sink.SetState(state{
		Listed: s.state.Listed, Delta: s.state.Delta, Drive: s.state.Drive, Folder: s.state.Folder, Files: s.state.Files,
		Away: s.state.Away, Failed: s.state.Failed, Gone: s.stillGone(), GoneMore: s.state.GoneMore,
	})
}

// listAgain lists all messages from the beginning.
func (s *syncer) listAgain() {
	s.state.Since, s.state.Listing, s.state.Listed, s.state.Delta, s.state.Paging = "", "", false, "", false
}

func (s *syncer) readKnown(ctx context.Context) error {
	known, err := s.sink.Known(ctx)
	if err != nil {
		return err
	}
	if s.known = maps.Clone(known); s.known == nil {
		s.known = map[string]worker.Known{}
	}
	s.fresh = map[string]struct{}{}
	s.attached = map[string]map[string]struct{}{}
	for id := range s.known {
		if thread, file := split(id); file {
			s.attach(thread, id)
		}
	}
	return nil
}

// split returns the thread that a document belongs to, and whether it is an attached file.
func split(id string) (thread string, file bool) {
	root, _, file := strings.Cut(strings.TrimPrefix(id, "message/"), "/")
	return "message/" + root, file
}

func threadID(root string) string { return "message/" + root }

func (s *syncer) attach(thread, id string) {
	if s.attached[thread] == nil {
		s.attached[thread] = map[string]struct{}{}
	}
	s.attached[thread][id] = struct{}{}
}

// channel is the address of something of the channel's.
func (s *syncer) channel(rest string) string {
	return "/teams/" + graph.Segment(s.cfg.Team) + "/channels/" + graph.Segment(s.cfg.Channel) + rest
}

// checkpoint sets one, unless what would have to be remembered with it is too much: then the pages since the last one
// are read again after a crash.
func (s *syncer) checkpoint(ctx context.Context) error {
	stand := s.stand
	s.stand = nil
	if len(stand) > 0 {
		if err := s.sink.Seen(ctx, stand...); err != nil {
			return err
		}
	}
	if len(s.state.Listing)+len(s.state.Delta)+len(s.state.Files) > maxLinkBytes {
		return nil
	}
	return s.sink.Checkpoint(ctx, s.state)
}

func (s *syncer) stored(id string) (worker.Known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[id]
	return k, ok
}

// send stores a document and remembers it: it may come again in this very sync.
func (s *syncer) send(ctx context.Context, doc worker.Document) error {
	s.remember(doc)
	s.mu.Lock()
	s.fresh[doc.SourceID] = struct{}{}
	s.mu.Unlock()
	if doc.Err != "" {
		s.failed.Add(1)
	} else {
		s.put.Add(1)
	}
	return s.sink.Put(ctx, doc)
}

// isFresh tells whether this run has put a document. It must not be touched then: what a run sends is stored in any
// order, and the content to keep may not be there yet.
func (s *syncer) isFresh(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.fresh[id]
	return is
}

func (s *syncer) remember(doc worker.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[doc.SourceID] = worker.Known{VersionToken: doc.VersionToken, ContentHash: doc.ContentHash}
	if thread, file := split(doc.SourceID); file {
		s.attach(thread, doc.SourceID)
	}
}

// remove deletes a document if it is stored.
func (s *syncer) remove(ctx context.Context, id string) error {
	s.mu.Lock()
	_, known := s.known[id]
	delete(s.known, id)
	if thread, file := split(id); file {
		delete(s.attached[thread], id)
	}
	s.mu.Unlock()
	if !known {
		return nil
	}
	s.deleted.Add(1)
	return s.sink.Delete(ctx, id)
}

// attachments are the stored ones of a thread.
func (s *syncer) attachments(thread string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.attached[thread]))
	for id := range s.attached[thread] {
		ids = append(ids, id)
	}
	return ids
}
