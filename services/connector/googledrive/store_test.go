package googledrive_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/internal/extract"
	"github.com/echomind/sync/testonly/fakedrive"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) {
	testkit.Histories(100)
	goleak.VerifyTestMain(m)
}

// text reads content as the service does.
type text struct{}

func (text) Extract(ctx context.Context, content []byte, name, mediaType string) (source.Content, error) {
	read, err := extract.Extract(ctx, content, extract.Hint{MediaType: mediaType, Name: name})
	read.Title = ""
	return read, err
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

// store is a workertest.Store that counts what it is told, and at which a sync may be killed.
type store struct {
	*workertest.Store

	mu                    sync.Mutex
	put, touched, deleted []string
	unchanged             int
	checkpoints           int
	begun                 int // listings
	// kill ends the sync at a checkpoint: "before" or "after" it is committed.
	kill func(checkpoint int) (before, after bool)
	// dies ends the sync at a document.
	dies func() bool
}

func newStore() *store { return &store{Store: workertest.New()} }

// told notes a message, which may be the last.
func (s *store) told(ids *[]string, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dies != nil && s.dies() {
		return errKilled
	}
	*ids = append(*ids, id)
	return nil
}

func (s *store) Put(ctx context.Context, d worker.Document) error {
	if err := s.told(&s.put, d.SourceID); err != nil {
		return err
	}
	return s.Store.Put(ctx, d)
}

func (s *store) Touch(ctx context.Context, d worker.Document) error {
	if err := s.told(&s.touched, d.SourceID); err != nil {
		return err
	}
	return s.Store.Touch(ctx, d)
}

func (s *store) Delete(ctx context.Context, id string) error {
	if err := s.told(&s.deleted, id); err != nil {
		return err
	}
	return s.Store.Delete(ctx, id)
}

func (s *store) Unchanged(n int) { s.unchanged += n }

func (s *store) Checkpoint(ctx context.Context, v any) error {
	s.checkpoints++
	before, after := false, false
	if s.kill != nil {
		before, after = s.kill(s.checkpoints)
	}
	if before {
		return errKilled
	}
	if err := s.Store.Checkpoint(ctx, v); err != nil {
		return err
	}
	if after {
		return errKilled
	}
	return nil
}

func (s *store) BeginListing() {
	s.begun++
	s.Store.BeginListing()
}

// reset begins to count anew.
func (s *store) reset() {
	s.put, s.touched, s.deleted, s.unchanged, s.checkpoints = nil, nil, nil, 0, 0
}

// files are the titles of what is stored, without folders.
func (s *store) files() []string {
	var titles []string
	for _, d := range s.Docs() {
		if d.MediaType != fakedrive.FolderType {
			titles = append(titles, d.Title)
		}
	}
	slices.Sort(titles)
	return titles
}

func (s *store) text(id string) string {
	d, is := s.Docs()[id]
	switch {
	case !is:
		return "(not stored)"
	case d.Err != "":
		return "(failed: " + d.Err + ")"
	}
	return s.found(id)
}

// found is the text that search finds of a document, failed or not.
func (s *store) found(id string) string { return workertest.Text(s.Docs()[id]) }

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
	r, err := googledrive.Sync(context.Background(), f.cfg, f.opts, f.store)
	f.store.End(err)
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
