package workertest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
)

// Run is what a handler does with a run.
type Run interface {
	source.Store
	Links(ctx context.Context, sourceID string) ([]string, error)
}

// Connector is a connector whose syncs are run one after the other: a Store, or one of real servers.
type Connector interface {
	// Sync runs one sync and waits for its end. Where handle returns an error, it is to fail.
	Sync(t *testing.T, handle func(ctx context.Context, run Run) error)
	// Committed waits until a state that was checkpointed is the connector's; it has this page.
	Committed(ctx context.Context, page string) error
	// Reconfigure changes the configuration.
	Reconfigure(t *testing.T)
	// Full says that the connector's owner has no room for more, from now on, or has again.
	Full(t *testing.T, full bool)
	// Said is what is said of a document.
	Said(t *testing.T, id string) (title, url, mediaType string)
	// Text is the text that is found of a document, and the reason why it failed.
	Text(t *testing.T, id string) (text, reason string)
}

type at struct {
	Page string `json:"page"`
}

// Document is one with a text, as sources put them.
func Document(id, version, text string, memo any) worker.Document {
	d := worker.Document{
		SourceID: id, Title: "Title of " + id, MediaType: "text/plain", VersionToken: version, ContentHash: "hash of " + text,
		Chunks: chunk.Split([]chunk.Section{{Text: text}}, chunk.Options{}),
	}
	if memo != nil {
		d.Memo, _ = json.Marshal(memo)
	}
	return d
}

// Contract tests what holds for every connector, in memory or in a database: the facts that tests with a Store rely on.
func Contract(t *testing.T, open func(t *testing.T) Connector) {
	puts := func(docs ...worker.Document) func(context.Context, Run) error {
		return func(ctx context.Context, run Run) error {
			for _, d := range docs {
				if err := run.Put(ctx, d); err != nil {
					return err
				}
			}
			return run.SetState(at{"end"})
		}
	}
	known := func(t *testing.T, c Connector) (known map[string]worker.Known) {
		c.Sync(t, func(ctx context.Context, run Run) (err error) {
			known, err = run.Known(ctx)
			return err
		})
		return known
	}

	t.Run("what is put is known with its token, hash and memo", func(t *testing.T) {
		c := open(t)
		c.Sync(t, puts(Document("a", "v1", "apple", map[string]int{"in": 1}), Document("b", "v1", "banana", nil)))
		require.Equal(t, map[string]worker.Known{
			"a": {VersionToken: "v1", ContentHash: "hash of apple", Found: true, Memo: json.RawMessage(`{"in":1}`)},
			"b": {VersionToken: "v1", ContentHash: "hash of banana", Found: true},
		}, known(t, c))
	})
	t.Run("what failed has no token, and its earlier text stays", func(t *testing.T) {
		c := open(t)
		c.Sync(t, puts(Document("a", "v1", "apple", 1)))
		bad := Document("a", "v2", "", 2)
		bad.Err, bad.ContentHash, bad.VersionToken = "no permission", "failed", ""
		c.Sync(t, puts(bad))
		require.Equal(t, map[string]worker.Known{"a": {ContentHash: "failed", Found: true, Memo: json.RawMessage("2")}}, known(t, c))
		text, reason := c.Text(t, "a")
		require.Equal(t, "apple", text)
		require.Equal(t, "no permission", reason)
	})
	t.Run("what is not said of a document stays, but for a media type", func(t *testing.T) {
		c := open(t)
		d := Document("a", "v1", "apple", 1)
		d.URL = "https://place/a"
		c.Sync(t, puts(d))
		c.Sync(t, puts(worker.Document{SourceID: "a", Err: "it is not there", ContentHash: "failed"}))
		title, url, mediaType := c.Said(t, "a")
		require.Equal(t, []string{"Title of a", "https://place/a", "text/plain"}, []string{title, url, mediaType})
		c.Sync(t, puts(worker.Document{SourceID: "a", VersionToken: "v2", ContentHash: "none"}))
		title, url, mediaType = c.Said(t, "a")
		require.Equal(t, []string{"Title of a", "https://place/a", ""}, []string{title, url, mediaType})
	})
	t.Run("what has failed since it came is not found", func(t *testing.T) {
		c := open(t)
		bad := Document("a", "", "", nil)
		bad.Err, bad.ContentHash = "no permission", "failed"
		c.Sync(t, puts(bad))
		require.Equal(t, map[string]worker.Known{"a": {ContentHash: "failed"}}, known(t, c))
	})
	t.Run("what is touched has a new token and memo, and its text", func(t *testing.T) {
		c := open(t)
		c.Sync(t, puts(Document("a", "v1", "apple", 1)))
		c.Sync(t, func(ctx context.Context, run Run) error {
			d := Document("a", "v2", "apple", 2)
			d.Chunks = nil
			return errors.Join(run.Touch(ctx, d), run.SetState(at{"end"}))
		})
		require.Equal(t, map[string]worker.Known{"a": {VersionToken: "v2", ContentHash: "hash of apple", Found: true, Memo: json.RawMessage("2")}}, known(t, c))
		text, _ := c.Text(t, "a")
		require.Equal(t, "apple", text)
	})
	t.Run("what is deleted is not known", func(t *testing.T) {
		c := open(t)
		c.Sync(t, puts(Document("a", "v1", "apple", 1), Document("b", "v1", "banana", 1)))
		c.Sync(t, func(ctx context.Context, run Run) error {
			return errors.Join(run.Delete(ctx, "a"), run.SetState(at{"end"}))
		})
		require.NotContains(t, known(t, c), "a")
	})
	t.Run("links come back", func(t *testing.T) {
		c := open(t)
		d := Document("a", "v1", "apple", nil)
		d.Links = []string{"b", "c"}
		c.Sync(t, puts(d))
		c.Sync(t, func(ctx context.Context, run Run) error {
			links, err := run.Links(ctx, "a")
			assert.Equal(t, d.Links, links)
			none, missing := run.Links(ctx, "none")
			assert.Empty(t, none)
			return errors.Join(err, missing)
		})
	})
	t.Run("what breaks a limit is refused, and named", func(t *testing.T) {
		c := open(t)
		c.Sync(t, func(ctx context.Context, run Run) error {
			for name, spoil := range map[string]func(*worker.Document){
				"no id":        func(d *worker.Document) { d.SourceID = "" },
				"a long id":    func(d *worker.Document) { d.SourceID = strings.Repeat("x", worker.MaxSourceIDBytes+1) },
				"a long token": func(d *worker.Document) { d.VersionToken = strings.Repeat("x", worker.MaxTokenBytes+1) },
				"a long hash":  func(d *worker.Document) { d.ContentHash = strings.Repeat("x", 256) },
				"no JSON":      func(d *worker.Document) { d.Memo = json.RawMessage("{") },
				"a large memo": func(d *worker.Document) {
					d.Memo = json.RawMessage(`"` + strings.Repeat("x", worker.MaxMemoBytes) + `"`)
				},
				"NUL in an id":   func(d *worker.Document) { d.SourceID = "a\x00" },
				"NUL in a memo":  func(d *worker.Document) { d.Memo = json.RawMessage(`"\u0000"`) },
				"bytes in an id": func(d *worker.Document) { d.SourceID = "a\xff" },
			} {
				d := Document("a", "v1", "apple", nil)
				spoil(&d)
				assert.ErrorIs(t, run.Put(ctx, d), worker.ErrDocument, name)
			}
			return nil
		})
		require.Empty(t, known(t, c))
	})
	t.Run("a state is that of the last sync that completed", func(t *testing.T) {
		c := open(t)
		var first, second at
		c.Sync(t, func(ctx context.Context, run Run) error {
			return errors.Join(run.State(&first), run.Put(ctx, Document("a", "v1", "apple", nil)), run.SetState(at{"one"}))
		})
		c.Sync(t, func(_ context.Context, run Run) error {
			return errors.Join(run.State(&second), run.SetState(at{"two"}), errors.New("it fails"))
		})
		require.Zero(t, first)
		require.Equal(t, at{"one"}, second)
		c.Sync(t, func(_ context.Context, run Run) error { return run.State(&second) })
		require.Equal(t, at{"one"}, second)
	})
	t.Run("a sync that fails leaves the state of its last checkpoint", func(t *testing.T) {
		c := open(t)
		c.Sync(t, func(ctx context.Context, run Run) error {
			return errors.Join(run.Put(ctx, Document("a", "v1", "apple", nil)), run.Checkpoint(ctx, at{"half"}), c.Committed(ctx, "half"),
				errors.New("it fails"))
		})
		var then at
		c.Sync(t, func(_ context.Context, run Run) error { return run.State(&then) })
		require.Equal(t, at{"half"}, then)
		require.Contains(t, known(t, c), "a")
	})
	t.Run("a sync that asks to list again leaves no state but its place", func(t *testing.T) {
		type at struct {
			Page  string `json:"page,omitempty"`
			Place string `json:"place,omitempty"`
		}
		c := open(t)
		c.Sync(t, func(ctx context.Context, run Run) error {
			return errors.Join(run.Put(ctx, Document("a", "v1", "apple", nil)), run.SetState(at{"one", "here"}))
		})
		c.Sync(t, func(ctx context.Context, run Run) error {
			run.BeginListing()
			err := errors.Join(run.Put(ctx, Document("b", "v1", "banana", nil)), run.Checkpoint(ctx, at{"half", "here"}), c.Committed(ctx, "half"))
			return errors.Join(err, worker.Relist(errors.New("it shows little")))
		})
		var then at
		c.Sync(t, func(_ context.Context, run Run) error { return run.State(&then) })
		require.Equal(t, at{Place: "here"}, then)
		after := known(t, c)
		require.False(t, after["b"].Seen)
		require.Len(t, after, 2)
	})
	t.Run("what a listing has shown is seen by the sync that goes on with it, and by none later", func(t *testing.T) {
		c := open(t)
		c.Sync(t, puts(Document("old", "v1", "x", nil), Document("gone", "v1", "x", nil)))
		c.Sync(t, func(ctx context.Context, run Run) error {
			run.BeginListing()
			return errors.Join(run.Put(ctx, Document("new", "v1", "y", nil)), run.Seen(ctx, "old"), run.Checkpoint(ctx, at{"half"}),
				c.Committed(ctx, "half"), errors.New("it fails"))
		})
		seen := func(known map[string]worker.Known) (ids []string) {
			for id, k := range known {
				if k.Seen {
					ids = append(ids, id)
				}
			}
			return ids
		}
		c.Sync(t, func(ctx context.Context, run Run) error {
			known, err := run.Known(ctx)
			assert.ElementsMatch(t, []string{"new", "old"}, seen(known))
			run.EndListing()
			return errors.Join(err, run.Delete(ctx, "gone"), run.SetState(at{"end"}))
		})
		after := known(t, c)
		require.Empty(t, seen(after))
		require.NotContains(t, after, "gone")
	})
	t.Run("of another configuration nothing is known but that it is stored", func(t *testing.T) {
		c := open(t)
		c.Sync(t, puts(Document("a", "v1", "apple", 1)))
		c.Reconfigure(t)
		require.Equal(t, map[string]worker.Known{"a": {Found: true}}, known(t, c))
	})
	t.Run("what there is no room for has the token that was refused, no hash, and its memo", func(t *testing.T) {
		c := open(t)
		c.Sync(t, puts(Document("a", "v1", "apple", 1)))
		c.Full(t, true)
		c.Sync(t, puts(Document("a", "v2", "another apple", 2), Document("b", "v1", "banana", 3)))
		require.Equal(t, map[string]worker.Known{
			"a": {RefusedToken: "v2", Found: true, Memo: json.RawMessage("2")}, "b": {RefusedToken: "v1", Memo: json.RawMessage("3")},
		}, known(t, c))
		text, reason := c.Text(t, "a")
		require.Equal(t, "apple", text)
		require.NotEmpty(t, reason)
		c.Full(t, false)
		c.Sync(t, puts(Document("a", "v2", "another apple", 2)))
		text, reason = c.Text(t, "a")
		require.Equal(t, "another apple", text)
		require.Empty(t, reason)
	})
	t.Run("deletions of very much are not allowed unless somebody says so", func(t *testing.T) {
		open(t).Sync(t, func(ctx context.Context, run Run) error {
			allowed, err := run.DeletionsAllowed(ctx)
			assert.False(t, allowed)
			return err
		})
	})
}
