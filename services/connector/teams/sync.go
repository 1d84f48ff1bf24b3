package teams

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

const (
	// DefaultWorkers is how many attached files are downloaded at the same time.
	DefaultWorkers = 2
	// maxRestarts ends a sync whose tokens become useless faster than they can be used.
	maxRestarts = 3
	// maxRetried is how many failed documents a sync tries again until that helps.
	maxRetried = 100
)

// Options tune Sync. Without Workers they are DefaultWorkers, without PageSize 50 threads, the most that the service takes.
type Options = graph.SyncOptions

// Result counts what a sync did, in documents: threads and attached files.
type Result struct {
	source.Result
	// Pages were read. Threads were looked at.
	Pages, Threads int
	// Restarted says that the service could not go on from the stored cursor, and everything was listed again.
	Restarted bool
}

// state is the cursor of a channel. Its links have at most graph.MaxLinkBytes each, and only two of them are set at once.
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
}

// channel is the source of one sync. Its fields are used by the goroutine that lists; the readers of files use none that change.
type channel struct {
	cfg      Config
	pageSize int
	api      *graph.Client
	reader   graph.Reader
	sync     *source.Sync
	state    state
	result   Result

	// now is the service's time, as of its last answer.
	now time.Time
	// shown are the threads that this sync has looked at, files the stored attachments of each thread.
	shown map[string]struct{}
	files map[string]map[string]struct{}
	// inFolder says of folders whether they lie in the channel's folder.
	inFolder map[string]bool
}

// Sync brings store up to date with the channel that cfg names.
//
// After each page a checkpoint is set, so that a first sync that dies goes on from its last page. A thread is stored
// again when its text has changed, and deleted when nothing of it is left to read. An attached file that cannot be read
// fails as a document.
func Sync(ctx context.Context, cfg Config, opts Options, store source.Store) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, worker.Permanent(err)
	}
	opts.Workers = cmp.Or(max(opts.Workers, 0), DefaultWorkers)
	if opts.PageSize <= 0 || opts.PageSize > 50 {
		opts.PageSize = 50
	}
	reader, err := opts.Reader(cmp.Or(cfg.MaxFileBytes, DefaultMaxFileBytes))
	if err != nil {
		return Result{}, err
	}
	c := &channel{
		cfg: cfg, pageSize: opts.PageSize, api: reader.Client, reader: reader, shown: map[string]struct{}{},
		files: map[string]map[string]struct{}{}, inFolder: map[string]bool{},
	}
	engine := opts.Engine(maxRetried)
	engine.Answers = c.answers
	result, err := source.Run(ctx, store, c, engine)
	c.result.Result = result
	return c.result, err
}

// List lists all messages once, and later the changes. The library's changes are read before the messages, and applied after them:
// a later change there is found by the next sync.
func (c *channel) List(ctx context.Context, s *source.Sync) (any, error) {
	c.sync = s
	if err := s.Cursor(&c.state); err != nil {
		return nil, err
	}
	for id := range s.All() {
		if thread, file := split(id); file {
			c.attach(thread, id)
		}
	}
	changes, err := c.library(ctx)
	if err != nil {
		return nil, err
	}
	for restarts := 0; ; restarts++ {
		err := c.messages(ctx)
		if err == nil {
			break
		}
		if _, resync := graph.Resync(err); !resync {
			return nil, c.channelError(err)
		}
		if restarts == maxRestarts {
			return nil, fmt.Errorf("after starting again %d times: %w", maxRestarts, err)
		}
		c.result.Restarted = true
		c.listAgain()
	}
	if err := c.recheck(ctx); err != nil {
		return nil, err
	}
	if err := c.loseOrphans(); err != nil {
		return nil, err
	}
	return &c.state, c.applyChanges(ctx, changes) // Look may still have it list everything again
}

// channelError is the error of the sync for an error of the channel's messages: before the first sync its configuration is at
// fault.
func (c *channel) channelError(err error) error {
	if !c.sync.First() && graph.IsGone(err) {
		return fmt.Errorf("the channel is not there now, and what is stored of it stays; if it was deleted, delete this connector: %w", err)
	}
	return graph.AsPermanent(err, "team_id, channel_id")
}

// answers asks for two things that must exist: a message, and the channel's folder.
func (c *channel) answers(ctx context.Context) error {
	_, _, err := c.api.Messages(ctx, c.api.URL(c.path("/messages"), url.Values{"$top": {"1"}}))
	if err != nil || c.state.Drive == "" {
		return err
	}
	_, err = c.api.Item(ctx, c.state.Drive, c.state.Folder)
	if graph.IsGone(err) || graph.IsRefused(err) {
		return nil // the next sync finds out, when it asks for its changes
	}
	return err
}

// listAgain lists all messages from the beginning.
func (c *channel) listAgain() {
	c.state.Since, c.state.Listing, c.state.Listed, c.state.Delta, c.state.Paging = "", "", false, "", false
}

// path is the path of one of the channel's resources.
func (c *channel) path(rest string) string {
	return "/teams/" + graph.Segment(c.cfg.Team) + "/channels/" + graph.Segment(c.cfg.Channel) + rest
}

// split returns the thread that a document belongs to, and whether it is an attached file.
func split(id string) (thread string, file bool) {
	root, _, file := strings.Cut(strings.TrimPrefix(id, "message/"), "/")
	return "message/" + root, file
}

// setTime notes the service's time.
func (c *channel) setTime(at time.Time) {
	if at.After(c.now) {
		c.now = at
	}
}
