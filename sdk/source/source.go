package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

// Source describes a place.
type Source interface {
	// List gives what is in the place, or what has changed since Sync.Cursor, to the Sync, and returns the cursor of the next sync:
	// a value that encodes as a JSON object. An error ends the sync; checkpoints stay. worker.Permanent marks an error that only
	// the connector's user can mend.
	List(ctx context.Context, s *Sync) (cursor any, err error)
}

// Looker is a source that can be asked for single items. A source with a cursor needs it: an item that failed when its change was
// listed is not listed again.
type Looker interface {
	Source
	// Look asks the place for items that failed before, and gives each to Sync.Item, Remove or MarkAway. An item that it gives to
	// none of them stays as it is.
	Look(ctx context.Context, s *Sync, ids []string) error
}

// Item is what a place has: a file, a page, a thread.
type Item struct {
	// ID is the document's worker.Document.SourceID.
	ID string
	// Title, URL and MediaType are shown to people beside a search hit. Where the title comes from the content, leave it empty
	// here: an item of the same Version with another URL or Memo is then read again, because there is no title to touch it with.
	Title, URL, MediaType string
	// Version is the place's name for this version of the content: an ETag, a revision, size and time of change. An item that is
	// stored with the same Version is not read. Empty: the place gives none, and the item is read each time it is given.
	Version string
	// Memo is a value that the source gets back with the stored item (Stored.Memo): it encodes as at most worker.MaxMemoBytes of
	// JSON, the same for the same item. nil means none.
	Memo any
	// Bytes is about how much content there is: Read is called once there is room for it. See Grown.
	Bytes int64
	// Unread says why the item is not even read, in words for its owner: it fails with that reason until Version, Title, URL or
	// Memo change.
	Unread string
	// Read reads the item. It is called by several goroutines at once, for different items. Its error is an *Unreadable, ErrGone,
	// ErrAway, ErrNoText, a *Grown, or ends the sync. nil: the item has no text, and is no document that people count; it only stands for its place.
	Read func(ctx context.Context) (Content, error)
}

// Content is what an item holds.
type Content struct {
	// Title is the title in the content; empty leaves Item.Title.
	Title string
	// MediaType is what the content turned out to be; empty leaves Item.MediaType.
	MediaType string
	// Sections are the text, in reading order.
	Sections []chunk.Section
	// Hash distinguishes two contents. Empty: the engine computes one from the Sections.
	Hash string
	// Now is the item as it was when it was read, where that may be newer than the listing, never older; nil means as listed. Its
	// ID, Bytes, Unread and Read are ignored.
	Now *Item
	// AtHand says that reading it needed no request: a successful reading then says nothing about whether the place answers.
	AtHand bool
}

// Stored is what is stored of an item.
type Stored struct {
	// Version is the stored version of the item; empty where its content is not stored.
	Version string
	// Hash is the hash of its content; empty where its content is not stored.
	Hash string
	// Memo is Item.Memo as JSON.
	Memo json.RawMessage
	// Failed says why its content is not stored, or is older than the item as it was last given.
	Failed Failure
	// Seen says that the listing that this run continues has shown it before; see worker.Known.
	Seen bool
	// Fresh says that this run has put it, or its failure.
	Fresh bool
	// Found says that a search may find a document of it, also the version before it failed; never for an item without text.
	Found bool
}

// MemoOf decodes the memo of a stored item. It is empty where there is none, or another kind.
func MemoOf[T any](of Stored) (memo T) {
	if json.Unmarshal(of.Memo, &memo) != nil {
		return *new(T)
	}
	return memo
}

// Failure is why there is no content.
type Failure string

// Failures. Unknown is an item that was stored under an earlier configuration: it has no Memo.
const (
	None      Failure = ""
	Reading   Failure = "read"    // it could not be read, and may be readable now
	InContent Failure = "text"    // its content cannot be read
	Outdated  Failure = "version" // its content could not be read under an earlier Options.Reading
	IsAway    Failure = "away"    // it was not there
	NotStored Failure = "stored"  // it was read, and could not be stored: its owner's quota is full
	Unknown   Failure = "unknown"
)

// Store receives what a sync finds; *worker.Run is one. It is safe for concurrent use. An error of any method ends the sync and is
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
	// Reserve waits until ctx ends for room for content of so many bytes.
	Reserve(ctx context.Context, bytes int64) (Reservation, error)
}

// Reservation is the room that one item has.
type Reservation = interface {
	// Resize sets how many bytes the content really takes.
	Resize(bytes int64)
	// Release gives the room back.
	Release()
}

// Bounds and defaults of Options.
const (
	DefaultWorkers       = 8
	DefaultInFlightBytes = 32 << 20
	DefaultAgain         = 100
)

// Options tune Run.
type Options struct {
	// Connector is the connector's id, for messages that tell people which command to call.
	Connector int32
	// Chunk is the size of chunks.
	Chunk chunk.Options
	// Workers is how many items are read at the same time; 0 means DefaultWorkers.
	Workers int
	// InFlightBytes bounds the content of the items that are read at the same time; a larger one is read alone. 0 means
	// DefaultInFlightBytes.
	InFlightBytes int64
	// Room bounds the memory of several syncs together; nil means no bound.
	Room Room
	// Reading is the version of the way content is read: letters and digits. When it changes, unreadable items are read again.
	Reading string
	// MaxItems bounds the items that are stored at the end of a sync; 0 has no bound. TooMany is the error of a sync with more.
	MaxItems int
	TooMany  error
	// Unresumed says that List lists everything in one run, and sets no checkpoint: shown items need not be marked.
	Unresumed bool
	// Again is how many failed items a sync tries again until that helps; see Looker. 0 means DefaultAgain.
	Again int
	// Ends tells which errors concern the account or the place as a whole and end the sync; nil: none.
	Ends func(error) bool
	// Answers asks the place for something that must be there, when many items in a row cannot be read. An error ends the sync.
	// nil: it is never asked, and each item fails alone.
	Answers func(ctx context.Context) error
	// Clean removes secrets from the reasons that people see; nil leaves them.
	Clean func(string) string
}

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(max(o.Workers, 0), DefaultWorkers)
	o.InFlightBytes = cmp.Or(max(o.InFlightBytes, 0), DefaultInFlightBytes)
	o.Again = cmp.Or(max(o.Again, 0), DefaultAgain)
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
	// Listed counts the items with content that were given, each time they were given. The other fields say what became of them. A
	// failure that is stored already counts as Unchanged.
	Listed, Put, Touched, Unchanged, Deleted, Failed int
}

// Changed tells whether the sync changed anything that is stored.
func (r Result) Changed() bool { return r.Put+r.Touched+r.Deleted+r.Failed > 0 }

var (
	// ErrGone is the error of Item.Read for an item that the place says is gone: a listing removes it as if it had not shown it.
	// Outside a listing it is treated as ErrAway, and a later change removes it.
	ErrGone = errors.New("it is gone")
	// ErrAway is the error of Item.Read for an item that was listed and is not there: it fails, and is looked for again. It is
	// removed when Look says so.
	ErrAway = errors.New("it is not there")
	// ErrNoText is the error of Item.Read for an item without text: it is stored like an item without Read.
	ErrNoText = errors.New("it has no text")
)

var _ Store = (*worker.Run)(nil)
