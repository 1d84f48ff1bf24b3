package teams_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "pgregory.net/rapid"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/teams"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/fakereader"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) {
	testkit.Histories(60)
	os.Exit(m.Run())
}

const channelID = "19:4a95f7d8@thread.tacv2"

// tester is what testing.T and rapid.T have in common.
type tester interface {
	require.TestingT
	Helper()
	Fatal(args ...any)
	Context() context.Context
}

// world is a channel, a sink and a connector between them.
type world struct {
	t                   tester
	fake                *fakegraph.Server
	store               *workertest.Store
	drive, root, folder string
	cfg                 teams.Config
}

func newWorld(t testing.TB) *world {
	w := world{fake: fakegraph.New()}
	t.Cleanup(w.fake.Close)
	return w.in(t)
}

func (w world) in(t tester) *world {
	w.t, w.store = t, workertest.New()
	w.drive, w.root = w.fake.NewDrive("Documents", "team")
	w.folder = w.fake.Folder(w.root, "General")
	w.fake.NewChannel("team", channelID, w.folder)
	w.cfg = teams.Config{Team: "team", Channel: channelID}
	return &w
}

func (w *world) options() teams.Options {
	return teams.Options{
		Endpoint: w.fake.Endpoint(), API: w.fake.Client(), Plain: w.fake.Plain(), Extract: fakereader.Plain{},
	}
}

func (w *world) try(ctx context.Context) (teams.Result, error) {
	result, err := teams.Sync(ctx, w.cfg, w.options(), w.store)
	w.store.End(err)
	return result, err
}

// tries syncs; its owner may be asked about what is not there.
func (w *world) tries(n int) {
	w.t.Helper()
	for range n {
		if _, err := w.try(w.t.Context()); !errors.Is(err, source.ErrDeletionsRefused) {
			require.NoError(w.t, err)
		}
	}
}

func (w *world) sync() teams.Result {
	w.t.Helper()
	r, err := w.try(w.t.Context())
	require.NoError(w.t, err)
	if problem := w.differs(); problem != "" {
		w.t.Fatal(problem)
	}
	return r
}

// docs are the documents that people see: an attachment that is not there only keeps its place.
func (w *world) docs() map[string]worker.Document {
	w.t.Helper()
	docs := w.store.Docs()
	maps.DeleteFunc(docs, func(_ string, d worker.Document) bool {
		return strings.HasPrefix(d.ContentHash, "no text") && d.Err == ""
	})
	return docs
}

func (w *world) ids() []string { return slices.Sorted(maps.Keys(w.docs())) }

// differs compares the store with the channel: every thread holds what its visible messages say, in order, and every
// attached file of theirs that is in the channel's folder is stored.
func (w *world) differs() string {
	threads, files := w.fake.Threads(channelID), w.fake.Contents(w.folder)
	byURL := map[string]fakegraph.Content{}
	for _, f := range files {
		byURL[f.URL] = f
	}
	docs, left := w.docs(), w.store.IDs()
	drop := func(id string) { left = slices.DeleteFunc(left, func(one string) bool { return one == id }) }
	for _, root := range slices.Sorted(maps.Keys(threads)) {
		id := "message/" + root
		d, stored := docs[id]
		if !stored {
			return id + " is not stored"
		}
		drop(id)
		text, at := workertest.Text(d), 0
		for _, m := range threads[root] {
			found := strings.Index(text[at:], m.Author+" (")
			if found < 0 || !strings.Contains(text[at:], m.Word) {
				return fmt.Sprintf("%s does not say %q by %s: %q", id, m.Word, m.Author, text)
			}
			at += strings.Index(text[at:], m.Word)
		}
		if n := strings.Count(text, " UTC):\n"); n != len(threads[root]) {
			return fmt.Sprintf("%s has %d messages instead of %d: %q", id, n, len(threads[root]), text)
		}
		links := map[string]string{} // of a file that is attached twice the newest
		for _, m := range threads[root] {
			maps.Copy(links, m.Files)
		}
		for name, url := range links {
			file := id + "/guid-of-" + name
			f, there := byURL[url]
			d, stored := docs[file]
			drop(file)
			if stored && !there { // renamed, where an earlier sync has found it
				var memo struct{ I string }
				_ = json.Unmarshal(d.Memo, &memo)
				f, there = files[memo.I]
			}
			switch {
			case !there && strings.Contains(d.Err, "no permission") && len(d.Chunks) == 0: // nor to see that it lies elsewhere
			case there != stored:
				return fmt.Sprintf("%s: there %v, stored %v %s %q", file, there, stored, w.store.Docs()[file].Memo, d.Err)
			case there && f.Refused && d.Err != "":
			case there && (d.Err != "" || workertest.Text(d) != f.Text || d.URL != f.URL):
				return fmt.Sprintf("%s: %+v is stored as %q %q %q", file, f, d.URL, workertest.Text(d), d.Err)
			}
		}
	}
	if len(left) > 0 {
		return left[0] + " is stored, and not in the channel"
	}
	return ""
}

// say posts a message whose text is a word of its own.
func (w *world) say(to, author, word string, files ...string) string {
	return w.fake.Say(channelID, to, post(w, author, word, files...))
}

func post(w *world, author, word string, files ...string) fakegraph.Post {
	p := fakegraph.Post{Author: author, HTML: "<p>" + word + "</p>", Files: map[string]string{}}
	for _, id := range files {
		url := w.fake.URL(id)
		p.Files[url[strings.LastIndex(url, "/")+1:]] = url
	}
	return p
}

// killedAt ends a sync at its nth checkpoint from now on.
func (w *world) killedAt(n int) {
	w.t.Helper()
	at := w.store.Checkpoints() + n
	w.store.OnCheckpoint = func(n int) error {
		if n == at {
			return errors.New("killed")
		}
		return nil
	}
	_, err := w.try(w.t.Context())
	require.ErrorContains(w.t, err, "killed")
	w.store.OnCheckpoint = nil
}
