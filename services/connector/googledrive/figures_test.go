package googledrive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
)

// The figures of docs are printed by these tests, with CONNECTOR_FIGURES set; without it they run on small drives.
func size(most int) int {
	if os.Getenv("CONNECTOR_FIGURES") != "" {
		return most
	}
	return 500
}

// forgetful stores nothing, and so takes no memory of its own.
type forgetful struct{ *store }

func (forgetful) Known(context.Context) (map[string]worker.Known, error) { return nil, nil }
func (forgetful) Put(context.Context, worker.Document) error             { return nil }
func (forgetful) Seen(context.Context, ...string) error                  { return nil }

// TestFirstSyncInAProcess is the process whose memory peakMemory measures.
func TestFirstSyncInAProcess(t *testing.T) {
	endpoint := os.Getenv("CONNECTOR_FIGURES_GOOGLE")
	if endpoint == "" {
		return // it is started by peakMemory
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	r, err := googledrive.Sync(t.Context(), googledrive.Config{}, googledrive.Options{
		Endpoint: endpoint, Client: &http.Client{Transport: transport}, Extract: text{},
	}, forgetful{newStore()})
	require.NoError(t, err)
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM:") {
			t.Logf("peak memory with %d files: %s", r.Put, strings.Join(strings.Fields(line)[1:], " "))
		}
	}
}

// peakMemory prints the resident memory of a first sync without the fake.
func (f *fixture) peakMemory() {
	cmd := exec.Command(os.Args[0], "-test.run=^TestFirstSyncInAProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "CONNECTOR_FIGURES_GOOGLE="+f.URL)
	output, err := cmd.CombinedOutput()
	require.NoError(f.t, err, "%s", output)
	for line := range strings.Lines(string(output)) {
		if _, said, found := strings.Cut(line, "peak memory"); found {
			f.t.Log("peak memory " + strings.TrimSpace(said))
		}
	}
}

// fill makes a drive of n files in folders of a hundred.
func (f *fixture) fill(n int, content func(i int) string) (ids []string) {
	parent := ""
	for i := range n {
		if i%100 == 0 {
			parent = f.Folder(root, fmt.Sprint("folder ", i/100))
		}
		ids = append(ids, f.File(parent, fmt.Sprint(i, ".txt"), "text/plain", content(i)))
	}
	return ids
}

func TestFiguresOfAFirstAndAnIncrementalSync(t *testing.T) {
	f, n := newFixture(t), size(10_000)
	f.opts.Workers = 0
	ids := f.fill(n, func(i int) string { // 1 to 19 KB
		return fmt.Sprint(i, strings.Repeat(" some words of a text", 50+(i*37)%870))
	})
	began := time.Now()
	r := f.sync()
	took := time.Since(began)
	require.Equal(t, n, r.Put)
	t.Logf("first sync: %d documents in %v, %.0f documents/s, %d calls", r.Put, took.Round(time.Millisecond), float64(r.Put)/took.Seconds(), r.Calls)
	for i := range 5 {
		f.Write(ids[i*7], fmt.Sprint("changed ", i))
	}
	f.Rename(ids[1], "renamed.txt")
	f.Move(ids[2], root)
	f.Trash(ids[3], true)
	f.Delete(ids[4])
	f.File(root, "new.txt", "text/plain", "new")
	began = time.Now()
	r = f.again()
	t.Logf("10 changes: %v, %d calls, of which %d are contents", time.Since(began).Round(time.Millisecond), r.Calls, f.Calls("media"))
	require.Equal(t, 7, r.Calls, "the changes, and the six contents that are new")
	f.peakMemory()
}

func TestFiguresOfALongListingThatIsKilled(t *testing.T) {
	f, n := newFixture(t), size(100_000)
	if n < 100_000 {
		f.MaxPage = 20
	}
	f.opts.Workers = 0
	ids := f.fill(n, func(i int) string { return fmt.Sprint("words ", i) })
	began := time.Now()
	checkpoints := 0
	f.store.kill = func(int) (bool, bool) { checkpoints++; return false, len(f.store.Docs()) > n*6/10 }
	_, err := f.try()
	require.ErrorIs(t, err, errKilled)
	f.store.kill = nil
	stored := len(f.store.Docs())
	f.sync()
	listed, read := 0, 0
	for _, id := range ids {
		listed += f.Listed(id) - 1
		read += f.Reads(id) - 1
	}
	t.Logf("%d items, killed after %d: %v, %d checkpoints; %d items listed twice, %d contents read twice",
		n, stored, time.Since(began).Round(time.Millisecond), checkpoints+f.store.checkpoints, listed, read)
	require.Less(t, listed, 1000)
	require.Zero(t, read)
	var state json.RawMessage
	require.NoError(t, f.store.State(&state))
	require.Less(t, len(state), 1000, "the state is small")
	if n == 100_000 {
		f.peakMemory()
	}
}
