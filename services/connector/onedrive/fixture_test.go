package onedrive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/extraction"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/fakereader"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) {
	testkit.Histories(60)
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
			goleak.IgnoreTopFunction("internal/poll.runtime_pollWait")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// troubled is how many items in a row the engine takes for their own trouble.
const troubled = 20

// notThere is what the engine says of what is away.
const notThere = "it is not there now"

// counts is the result of a sync that reads one page.
func counts(of source.Result) onedrive.Result { return onedrive.Result{Pages: 1, Result: of} }

// tester is what testing.T and rapid.T have in common.
type tester interface {
	require.TestingT
	Helper()
	Fatal(args ...any)
	Context() context.Context
}

// world is a drive, a sink and a connector between them.
type world struct {
	t           tester
	fake        *fakegraph.Server
	sink        *workertest.Store
	drive, root string
	cfg         onedrive.Config
	extract     extraction.Extractor
	heldBytes   int
	pageSize    int
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, fake: fakegraph.New(), sink: workertest.New(), extract: fakereader.Plain{}}
	t.Cleanup(w.fake.Close)
	w.drive, w.root = w.fake.NewDrive("Documents", "")
	w.cfg = onedrive.Config{Drive: w.drive}
	return w
}

func (w *world) options() onedrive.Options {
	return onedrive.Options{
		Endpoint: w.fake.Endpoint(), API: w.fake.Client(), Plain: w.fake.Plain(), Extract: w.extract, Workers: 4,
		HeldBytes: w.heldBytes, PageSize: w.pageSize,
	}
}

// try syncs once; the state is committed if it worked.
func (w *world) try(ctx context.Context) (onedrive.Result, error) {
	result, err := onedrive.Sync(ctx, w.cfg, w.options(), w.sink)
	w.sink.End(err)
	return result, err
}

// sync syncs once and compares the store with the drive.
func (w *world) sync() onedrive.Result {
	w.t.Helper()
	result, err := w.try(w.t.Context())
	require.NoError(w.t, err)
	w.equal()
	return result
}

// scope is the folder that is synced.
func (w *world) scope() string {
	if w.cfg.Item != "" {
		return w.cfg.Item
	}
	return w.root
}

// equal compares what is stored with what is in the drive.
func (w *world) equal() {
	w.t.Helper()
	if problem := w.differs(); problem != "" {
		w.t.Fatal(problem)
	}
}

func (w *world) differs() string {
	want, have := w.fake.Contents(w.scope()), w.sink.Docs()
	for id, c := range want {
		d, ok := have[id]
		switch {
		case !ok:
			return fmt.Sprintf("%s (%s) is not stored", id, c.URL)
		case c.Refused && d.Err != "":
		case !c.Refused && d.Err != "":
			return fmt.Sprintf("%s (%s): refused %v, stored error %q", id, c.URL, c.Refused, d.Err)
		case d.Title != c.Name || d.URL != c.URL || workertest.Text(d) != c.Text:
			return fmt.Sprintf("%s: %+v is stored as %q %q %q", id, c, d.Title, d.URL, workertest.Text(d))
		}
	}
	for id := range maps.Keys(have) {
		if _, ok := want[id]; !ok {
			return fmt.Sprintf("%s (%s) is stored, and not in the drive", id, have[id].URL)
		}
	}
	return ""
}

// files makes n files in a folder.
func (w *world) files(parent string, n int) []string {
	ids := make([]string, n)
	for i := range n {
		ids[i] = w.fake.File(parent, fmt.Sprintf("%04d.txt", i), fmt.Sprintf("the text of file %d", i))
	}
	return ids
}

// killedAt ends a sync at its nth checkpoint from now on.
func (w *world) killedAt(n int) {
	w.t.Helper()
	at := w.sink.Checkpoints() + n
	w.sink.OnCheckpoint = func(n int) error {
		if n == at {
			return errors.New("killed")
		}
		return nil
	}
	_, err := w.try(w.t.Context())
	require.ErrorContains(w.t, err, "killed")
	w.sink.OnCheckpoint = nil
}
