// Package workertest is a connector in memory, for tests of what fetches: it keeps what a sync sends as the kit and the database would.
// Documents are stored at once, states as they are committed, and of both what is left when a sync is killed. It refuses what the kit, or the
// semantic service, would not take.
package workertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/echomind/sync/sdk/worker"
)

// Store is one connector.
type Store struct {
	// OnPut and OnCheckpoint may refuse; they run before anything is stored. As all hooks, they may be called by several goroutines.
	OnPut        func(worker.Document) error
	OnCheckpoint func(n int) error
	// Refuses says of a document that its owner has no room for it: what was stored of it stays, with neither token nor hash. What
	// takes no room is not refused: a touch, and a failure.
	Refuses func(worker.Document) bool
	// GivesUp says of a deletion that it is given up: what was stored stays, with neither token nor hash.
	GivesUp func(sourceID string) bool
	// Allows says that the connector's owner allows deletions of very much.
	Allows bool

	mu          sync.Mutex
	docs        map[string]doc
	version     int
	state       []byte // committed
	pending     []byte // the completion's
	checkpoints int
	ops         []string
	fresh       map[string]bool // put by this run
	unchanged   int
	partial     bool
	remark      string
	// listing is what the listing has shown that this run is in; nil: it is in none. shown is what the committed state hands on of its own.
	listing, shown map[string]bool
	// begun is what was stored when the run began, sent what it has stored since, and marks its checkpoints, with what it began from.
	begun map[string]doc
	sent  []sent
	marks []mark
}

type doc struct {
	worker.Document
	version int
	refused string // the token that it was put with when there was no room
}

func (d doc) found() bool { return d.Err == "" || len(d.Chunks) > 0 }

// New returns an empty one.
func New() *Store { return &Store{docs: map[string]doc{}} }

// Known returns what is stored.
func (s *Store) Known(context.Context) (map[string]worker.Known, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]worker.Known{}
	s.fresh, s.partial = map[string]bool{}, false
	s.listing = maps.Clone(s.shown)
	s.begun, s.sent, s.marks = maps.Clone(s.docs), nil, []mark{{0, s.state, s.shown}}
	for id, d := range s.docs {
		k := worker.Known{VersionToken: d.VersionToken, ContentHash: d.ContentHash, Memo: d.Memo, RefusedToken: d.refused}
		if d.Err != "" {
			k.VersionToken = ""
		}
		if d.version != s.version {
			k = worker.Known{}
		}
		k.Seen, k.Found = s.shown[id], d.found()
		known[id] = k
	}
	return known, nil
}

// Links returns the links of a document.
func (s *Store) Links(ctx context.Context, sourceID string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.docs[sourceID].Links), ctx.Err()
}

// Put stores a document.
func (s *Store) Put(ctx context.Context, d worker.Document) error {
	if s.OnPut != nil {
		if err := s.OnPut(d); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := check(d); err != nil {
		return err
	}
	refused := ""
	if s.Refuses != nil && d.Err == "" && s.Refuses(d) {
		refused = d.VersionToken
		d.Err, d.VersionToken, d.ContentHash = "not stored: there is no room", "", ""
	}
	s.keep(doc{d, s.version, refused})
	s.fresh[d.SourceID] = true
	s.ops = append(s.ops, "put "+d.SourceID)
	return nil
}

// Touch stores everything but the content. It refuses a document that the same run has put: semantic stores a run's
// messages in any order, and the content to keep may not be there yet.
func (s *Store) Touch(ctx context.Context, d worker.Document) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := check(d); err != nil {
		return err
	}
	old, stored := s.docs[d.SourceID]
	if !stored || s.fresh[d.SourceID] || old.Err != "" || old.ContentHash != d.ContentHash {
		return fmt.Errorf("%s is touched, and is not stored with this content before this run", d.SourceID)
	}
	d.Chunks = old.Chunks
	s.keep(doc{Document: d, version: s.version})
	s.ops = append(s.ops, "touch "+d.SourceID)
	return nil
}

// keep stores a document. What is not said of it, and of one that failed its text, stays as it was, but for what is of another configuration.
func (s *Store) keep(d doc) {
	old := s.docs[d.SourceID]
	if old.version != s.version {
		old = doc{}
	}
	d.Title, d.URL = cmp.Or(d.Title, old.Title), cmp.Or(d.URL, old.URL)
	if d.Err != "" {
		d.MediaType, d.Chunks = cmp.Or(d.MediaType, old.MediaType), old.Chunks
	}
	s.docs[d.SourceID] = d
	s.sent = append(s.sent, sent{d.SourceID, &d})
	if s.listing != nil {
		s.listing[d.SourceID] = true
	}
}

// check is stricter than the kit: what has neither token nor reason, or no hash, would be fetched again by each sync.
func check(d worker.Document) error {
	if d.ContentHash == "" || d.Err == "" && d.VersionToken == "" {
		return fmt.Errorf("%w: it has no token or hash: %q %q %q", worker.ErrDocument, d.SourceID, d.VersionToken, d.ContentHash)
	}
	return errors.Join(d.Validate(), worker.Oversize(d.Chunks))
}

// Delete removes a document.
func (s *Store) Delete(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, stored := s.docs[id]; !stored {
		return fmt.Errorf("%s is deleted, and is not stored", id)
	}
	s.ops = append(s.ops, "delete "+id)
	if s.GivesUp != nil && s.GivesUp(id) {
		d := s.giveUp(id)
		s.sent = append(s.sent, sent{id, &d})
		return nil
	}
	delete(s.docs, id)
	s.sent = append(s.sent, sent{id: id})
	return nil
}

// BeginListing begins a listing of everything.
func (s *Store) BeginListing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = map[string]bool{}
}

// Seen marks documents that the listing has shown.
func (s *Store) Seen(ctx context.Context, ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing == nil {
		return errors.New("documents are seen outside a listing")
	}
	for _, id := range ids {
		s.listing[id] = true
	}
	return ctx.Err()
}

// EndListing ends it.
func (s *Store) EndListing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = nil
}

// ListingPartial says that something was left out.
func (s *Store) ListingPartial() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partial = true
}

// Remark is kept: see Remarked.
func (s *Store) Remark(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remark = text
}

// Remarked is the last remark.
func (s *Store) Remarked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remark
}

// Partial says whether the last sync called ListingPartial.
func (s *Store) Partial() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partial
}

// DeletionsAllowed says what Allows says.
func (s *Store) DeletionsAllowed(ctx context.Context) (bool, error) { return s.Allows, ctx.Err() }

// Unchanged counts.
func (s *Store) Unchanged(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unchanged += n
}

// State decodes what is committed.
func (s *Store) State(v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.state) == 0 {
		return nil
	}
	return json.Unmarshal(s.state, v)
}

// SetState keeps the completion's state; Complete commits it.
func (s *Store) SetState(v any) error {
	data, err := encode(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = data
	return err
}

// Checkpoint commits a state.
func (s *Store) Checkpoint(ctx context.Context, v any) error {
	s.mu.Lock()
	s.checkpoints++
	n := s.checkpoints
	s.mu.Unlock()
	if s.OnCheckpoint != nil {
		if err := s.OnCheckpoint(n); err != nil {
			return err
		}
	}
	data, err := encode(v)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.shown = data, maps.Clone(s.listing)
	s.marks = append(s.marks, mark{len(s.sent), s.state, s.shown})
	return ctx.Err()
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && len(data) > worker.MaxStateBytes {
		err = fmt.Errorf("state has %d bytes, more than %d", len(data), worker.MaxStateBytes)
	}
	return data, err
}

// Reconfigure is a change of the configuration: the state is gone, and no token counts any more.
func (s *Store) Reconfigure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.state, s.pending, s.shown = nil, nil, nil
}

// SetRawState puts something into the state, as somebody might who writes connectors.
func (s *Store) SetRawState(v any) {
	data, _ := json.Marshal(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = data
}

// Seed stores documents as if an earlier sync had.
func (s *Store) Seed(docs ...worker.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range docs {
		s.docs[d.SourceID] = doc{Document: d, version: s.version}
	}
}

// GiveUp has documents be as after a deletion that was given up.
func (s *Store) GiveUp(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.giveUp(id)
	}
}

func (s *Store) giveUp(id string) doc {
	d := s.docs[id]
	d.Err, d.VersionToken, d.ContentHash = "given up", "", ""
	s.docs[id] = d
	return d
}

// Docs are what is stored.
func (s *Store) Docs() map[string]worker.Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]worker.Document{}
	for id, d := range s.docs {
		all[id] = d.Document
	}
	return all
}

// Ops are what was sent since the last call, sorted.
func (s *Store) Ops() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ops := slices.Sorted(slices.Values(s.ops))
	s.ops = nil
	return ops
}

// IDs are what is stored, sorted.
func (s *Store) IDs() []string { return slices.Sorted(maps.Keys(s.Docs())) }

// Checkpoints says how many were set.
func (s *Store) Checkpoints() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkpoints
}

// Text is a document's text, as its chunks have it.
func Text(d worker.Document) string {
	var b strings.Builder
	for _, c := range d.Chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}
