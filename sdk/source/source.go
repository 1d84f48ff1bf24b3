package source

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

// Source is a place.
type Source interface {
	// List says what there is in the place, or what has changed since Sync.Cursor, and returns the cursor of the next sync: a value that
	// encodes as a JSON object. An error ends the sync; what was checkpointed stays. worker.Permanent marks one that only the
	// connector's user can mend.
	List(ctx context.Context, s *Sync) (cursor any, err error)
}

// Looker is a source that can be asked for single items. One with a cursor needs it: what failed when a change was listed is not
// listed again.
type Looker interface {
	Source
	// Look asks the place for items that failed before, and gives each to Sync.Item, Remove or Away. One that it gives to none stays as
	// it is.
	Look(ctx context.Context, s *Sync, ids []string) error
}

// Item is what a place has: a file, a page, a thread.
type Item struct {
	// ID is the document's worker.Document.SourceID.
	ID string
	// Title, URL and MediaType are shown to people beside a search hit. Where the title is that of the content, leave it empty here:
	// then an item of the same Version whose URL or Memo has changed is read again, as there is no title to touch it with.
	Title, URL, MediaType string
	// Version is what the place calls this version of the content: an ETag, a revision, size and time of change. What is stored with
	// the same one is not read. Empty: the place does not say, and the item is read each time it is given.
	Version string
	// Memo is what the source wants back with what is stored (Stored.Memo): a value that encodes as at most worker.MaxMemoBytes of
	// JSON, the same for the same item. nil is none.
	Memo any
	// Bytes is about how much content there is: Read is called once there is room for it. See Grown.
	Bytes int64
	// Unread says why the item is not even read, in words for its owner: it fails with that, until Version, Title, URL or Memo change.
	Unread string
	// Read reads the item. It is called by several goroutines at once, for different items. Its error is an *Unreadable, ErrGone,
	// ErrAway, ErrNoText, a *Grown, or ends the sync. nil: the item has no text, and is no document that people count; it only stands for its place.
	Read func(ctx context.Context) (Content, error)
}

// Content is what an item holds.
type Content struct {
	// Title is that of the content; empty leaves Item.Title.
	Title string
	// MediaType is what the content turned out to be; empty leaves Item.MediaType.
	MediaType string
	// Sections are the text, in reading order.
	Sections []chunk.Section
	// Hash tells whether two contents differ. Empty: the engine makes one of the Sections.
	Hash string
	// Now is the item as it was when it was read, where that may be newer than what was listed, never older; nil is as listed. Its ID,
	// Bytes, Unread and Read say nothing.
	Now *Item
	// AtHand says that the place was asked for nothing to read it: that it was read does not mean that the place answers.
	AtHand bool
}

// Stored is what is stored of an item.
type Stored struct {
	// Version is the item's; empty where its content is not stored.
	Version string
	// Hash is that of its content; empty where its content is not stored.
	Hash string
	// Memo is Item.Memo as JSON.
	Memo json.RawMessage
	// Failed says why its content is not stored, or is not what it was when the item was given last.
	Failed Failure
	// Seen says that the listing that this run goes on with has shown it before; see worker.Known.
	Seen bool
	// Fresh says that this run has put it, or its failure.
	Fresh bool
	// Found says that somebody may find a document of it, also as it was before it failed: not of what has no text.
	Found bool
}

// Failure is why there is no content.
type Failure string

// Failures. Unknown is what was stored under an earlier configuration: it has no Memo.
const (
	None      Failure = ""
	Reading   Failure = "read"    // it could not be read, and may be readable now
	InContent Failure = "text"    // its content cannot be read
	Outdated  Failure = "version" // so it was for an earlier Options.Reading
	IsAway    Failure = "away"    // it was not there
	NotStored Failure = "stored"  // it was read, and could not be stored: its owner has no room
	Unknown   Failure = "unknown"
)

// Store takes what a sync finds; *worker.Run is one. It is safe for concurrent use. An error of any method ends the sync and is
// returned as it is.
type Store interface {
	Known(ctx context.Context) (map[string]worker.Known, error)
	Put(ctx context.Context, doc worker.Document) error
	Touch(ctx context.Context, doc worker.Document) error
	Delete(ctx context.Context, sourceID string) error
	Unchanged(n int)
	State(v any) error
	SetState(v any) error
	Checkpoint(ctx context.Context, state any) error
	BeginListing()
	Seen(ctx context.Context, sourceIDs ...string) error
	EndListing()
	ListingPartial()
	DeletionsAllowed(ctx context.Context) (bool, error)
	Remark(text string)
}

// Room is memory for content that several syncs share.
type Room interface {
	// Enter waits for room for content of so many bytes until ctx ends.
	Enter(ctx context.Context, bytes int64) (Place, error)
}

// Place is room that an item has.
type Place = interface {
	// Hold says how many bytes the item takes as it turned out.
	Hold(bytes int64)
	// Leave gives the room back.
	Leave()
}

// Bounds and defaults of Options.
const (
	DefaultWorkers       = 8
	DefaultInFlightBytes = 32 << 20
	DefaultAgain         = 100
)

// Options tune Run.
type Options struct {
	// Connector is the connector's id, for what people are told to do.
	Connector int32
	// Chunk is the size of chunks.
	Chunk chunk.Options
	// Workers is how many items are read at the same time; 0 means DefaultWorkers.
	Workers int
	// InFlightBytes bounds the content of the items that are read at the same time; a larger one is read alone. 0 means
	// DefaultInFlightBytes.
	InFlightBytes int64
	// Room bounds the memory of several syncs together; nil has no end.
	Room Room
	// Reading is the version of how content is read: letters and digits. Where it changes, what could not be read is read again.
	Reading string
	// MaxItems bounds the items that are stored at the end of a sync; 0 has no bound. TooMany is the error of a sync with more.
	MaxItems int
	TooMany  error
	// Unresumed says that List lists everything in one run, and sets no checkpoint: what it shows need not be marked.
	Unresumed bool
	// Again is how many items that failed are tried again by a sync until that helps; see Looker. 0 means DefaultAgain.
	Again int
	// Ends tells which errors are about the account or the place as a whole; nil: none.
	Ends func(error) bool
	// Answers asks the place for what must be there, where many items in a row cannot be read: an error ends the sync. nil: it is never
	// asked, and each item fails alone.
	Answers func(ctx context.Context) error
	// Clean cleans what people are told of a failure, of secrets; nil leaves it.
	Clean func(string) string
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.InFlightBytes <= 0 {
		o.InFlightBytes = DefaultInFlightBytes
	}
	if o.Again <= 0 {
		o.Again = DefaultAgain
	}
	if o.Ends == nil {
		o.Ends = func(error) bool { return false }
	}
	if o.Answers == nil {
		o.Answers = func(context.Context) error { return nil }
	}
	if o.Clean == nil {
		o.Clean = func(text string) string { return text }
	}
	return o
}

// Result counts what a sync did.
type Result struct {
	// Listed are the items with content that were given, each time they were; the others are how these went. A failure that is stored
	// already counts as Unchanged.
	Listed, Put, Touched, Unchanged, Deleted, Failed int
}

// Changed tells whether the sync changed anything that is stored.
func (r Result) Changed() bool { return r.Put+r.Touched+r.Deleted+r.Failed > 0 }

var (
	// ErrGone is what Item.Read returns for what the place says is gone: a listing removes it as if it had not shown it. Else it is as ErrAway, and
	// a change will tell.
	ErrGone = errors.New("it is gone")
	// ErrAway is what Item.Read returns for what was listed and is not there: it fails, and is looked for again. It goes where Look says so.
	ErrAway = errors.New("it is not there")
	// ErrNoText is what Item.Read returns for what has no text after all: it is stored as an item without Read is.
	ErrNoText = errors.New("it has no text")
)

var _ Store = (*worker.Run)(nil)
