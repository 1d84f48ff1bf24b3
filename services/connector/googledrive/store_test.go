package googledrive_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/extract"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/connector/internal/fakedrive"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// text reads content as the service does.
type text struct{}

func (text) Extract(ctx context.Context, content []byte, name, mediaType string) (source.Content, error) {
	read, err := extract.Extract(ctx, content, extract.Hint{MediaType: mediaType, Name: name})
	if err != nil {
		return source.Content{}, err
	}
	return source.Content{MediaType: read.MediaType, Sections: read.Sections, Hash: read.ContentHash()}, nil
}

func (text) OfContent(err error) bool { return extract.OfContent(err) }

func (text) Version() string { return extract.Version }

// killed is an extractor whose readers are killed.
type killed struct{ text }

func (killed) Extract(context.Context, []byte, string, string) (source.Content, error) {
	return source.Content{}, errors.New("could not be read: its reader was killed")
}

// errKilled is the end of a sync that is killed.
var errKilled = errors.New("killed")

// store is a sink that keeps what it is told, as the kit and the database would: a checkpoint and the end of a sync
// commit a state; documents are stored at once.
type store struct {
	mu        sync.Mutex
	docs      map[string]worker.Document
	state     []byte // committed
	pending   []byte // by SetState
	listing   int    // which listing; 0 is none
	seen      map[string]int
	fresh     map[string]bool // put by this run
	allows    bool            // the owner allows deletions of very much
	committed int             // the listing that the committed checkpoint is in
	begun     int

	put, touched, deleted []string
	unchanged             int
	checkpoints           int
	// kill ends the sync at a checkpoint: "before" or "after" it is committed.
	kill func(checkpoint int) (before, after bool)
	// dies ends the sync at a document.
	dies func() bool
	// refuses says of a document that its owner has no room for it, as semantic does.
	refuses func() bool
	// givesUp says of a deletion that semantic gives it up: what was stored stays, with neither token nor hash.
	givesUp func() bool
	journal *journal
}

func newStore() *store {
	return &store{docs: map[string]worker.Document{}, seen: map[string]int{}}
}

func (s *store) Known(context.Context) (map[string]worker.Known, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]worker.Known{}
	s.fresh = map[string]bool{}
	for id, d := range s.docs {
		k := worker.Known{VersionToken: d.VersionToken, ContentHash: d.ContentHash, Memo: d.Memo, Found: d.Err == "" || len(d.Chunks) > 0}
		if d.Err != "" {
			k.VersionToken = ""
		}
		k.Seen = s.listing != 0 && s.seen[id] == s.listing
		known[id] = k
	}
	return known, nil
}

func (s *store) killed() error {
	if s.dies != nil && s.dies() {
		return errKilled
	}
	return nil
}

func (s *store) Put(_ context.Context, d worker.Document) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.killed(); err != nil {
		return err
	}
	if d.SourceID == "" || d.ContentHash == "" || len(d.ContentHash) > 255 || len(d.VersionToken) > worker.MaxTokenBytes ||
		len(d.Memo) > worker.MaxMemoBytes || !json.Valid(d.Memo) {
		return fmt.Errorf("%w: %q %s", worker.ErrDocument, d.SourceID, d.Memo)
	}
	if s.refuses != nil && d.Err == "" && len(d.Chunks) > 0 && s.refuses() {
		d.Err, d.VersionToken, d.ContentHash = "not stored: there is no room", "", ""
	}
	if old := s.docs[d.SourceID]; d.Err != "" { // what was stored of it, and is not said, stays
		d.Title, d.URL, d.MediaType = cmp.Or(d.Title, old.Title), cmp.Or(d.URL, old.URL), cmp.Or(d.MediaType, old.MediaType)
		d.Chunks = old.Chunks
	}
	s.note(journalEntry{id: d.SourceID, doc: &d})
	s.put = append(s.put, d.SourceID)
	s.fresh[d.SourceID] = true
	s.docs[d.SourceID] = d
	s.seen[d.SourceID] = s.listing
	return nil
}

func (s *store) Touch(_ context.Context, d worker.Document) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.killed(); err != nil {
		return err
	}
	old, is := s.docs[d.SourceID]
	if !is || s.fresh[d.SourceID] || old.Err != "" || old.ContentHash != d.ContentHash {
		return fmt.Errorf("touched %q, which is stored otherwise", d.SourceID)
	}
	s.touched = append(s.touched, d.SourceID)
	old.Title, old.URL, old.VersionToken, old.Memo = d.Title, d.URL, d.VersionToken, d.Memo
	s.docs[d.SourceID] = old
	s.note(journalEntry{id: d.SourceID, doc: &old})
	s.seen[d.SourceID] = s.listing
	return nil
}

func (s *store) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.killed(); err != nil {
		return err
	}
	s.deleted = append(s.deleted, id)
	if s.givesUp != nil && s.givesUp() {
		d := s.docs[id]
		d.Err, d.VersionToken, d.ContentHash = "given up", "", ""
		s.note(journalEntry{id: id, doc: &d})
		s.docs[id] = d
		return nil
	}
	s.note(journalEntry{id: id})
	delete(s.docs, id)
	return nil
}

func (s *store) Unchanged(n int) { s.unchanged += n }

func (s *store) State(v any) error {
	if s.state == nil {
		return nil
	}
	return json.Unmarshal(s.state, v)
}

func (s *store) SetState(v any) (err error) {
	s.pending, err = json.Marshal(v)
	if len(s.pending) > worker.MaxStateBytes {
		return errors.New("the state is too large")
	}
	return err
}

func (s *store) Checkpoint(_ context.Context, v any) error {
	s.checkpoints++
	before, after := false, false
	if s.kill != nil {
		before, after = s.kill(s.checkpoints)
	}
	if before {
		return errKilled
	}
	state, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.state, s.committed = state, s.listing
	if s.journal != nil {
		s.journal.marks = append(s.journal.marks, mark{len(s.journal.entries), state, s.listing})
	}
	if after {
		return errKilled
	}
	return nil
}

func (s *store) BeginListing() {
	s.begun++
	s.listing = s.begun
}

func (s *store) Seen(_ context.Context, ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if _, is := s.docs[id]; !is {
			return fmt.Errorf("%q was seen and is not stored", id)
		}
		s.seen[id] = s.listing
		s.note(journalEntry{id: id, seen: true})
	}
	return nil
}

func (s *store) EndListing() { s.listing = 0 }

func (s *store) ListingPartial() {}

func (*store) Remark(string) {}

func (s *store) DeletionsAllowed(context.Context) (bool, error) { return s.allows, nil }

// reset begins to count anew.
func (s *store) reset() {
	s.put, s.touched, s.deleted, s.unchanged, s.checkpoints = nil, nil, nil, 0, 0
}

// files are the titles of what is stored, without folders.
func (s *store) files() []string {
	var titles []string
	for _, d := range s.docs {
		if d.MediaType != fakedrive.FolderType {
			titles = append(titles, d.Title)
		}
	}
	slices.Sort(titles)
	return titles
}

func (s *store) text(id string) string {
	d, is := s.docs[id]
	switch {
	case !is:
		return "(not stored)"
	case d.Err != "":
		return "(failed: " + d.Err + ")"
	}
	return s.found(id)
}

// found is the text that search finds of a document, failed or not.
func (s *store) found(id string) string {
	var b strings.Builder
	for _, c := range s.docs[id].Chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

func (s *store) ids() []string { return slices.Sorted(maps.Keys(s.docs)) }

// fixture is a drive, and a store that is synced with it.
type fixture struct {
	*fakedrive.Server
	t     testing.TB
	store *store
	cfg   googledrive.Config
	opts  googledrive.Options
}

func newFixture(t testing.TB) *fixture {
	f := &fixture{Server: fakedrive.New(), t: t, store: newStore()}
	t.Cleanup(f.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f.opts = googledrive.Options{
		Endpoint: f.URL, Client: &http.Client{Transport: transport}, Extract: text{}, Workers: 4, OwnerAlone: true,
	}
	return f
}

// try syncs; a sync that ends well commits its state.
func (f *fixture) try() (googledrive.Result, error) {
	f.t.Helper()
	f.store.reset()
	f.store.pending = nil
	r, err := googledrive.Sync(context.Background(), f.cfg, f.opts, f.store)
	if err == nil {
		require.NotNil(f.t, f.store.pending)
		f.store.state, f.store.listing = f.store.pending, 0
	} else {
		f.store.listing = f.store.committed // the marks of the committed checkpoint
	}
	if errors.Is(err, worker.ErrRelist) {
		var kept struct {
			Place json.RawMessage `json:"place,omitempty"`
		}
		require.NoError(f.t, f.store.State(&kept))
		state, bad := json.Marshal(kept)
		require.NoError(f.t, bad)
		f.store.state, f.store.listing = state, 0
	}
	f.store.committed = f.store.listing
	return r, err
}

func (f *fixture) sync() googledrive.Result {
	f.t.Helper()
	r, err := f.try()
	require.NoError(f.t, err)
	return r
}

// again syncs and counts what it asked for.
func (f *fixture) again() googledrive.Result {
	f.t.Helper()
	f.ResetCalls()
	return f.sync()
}
