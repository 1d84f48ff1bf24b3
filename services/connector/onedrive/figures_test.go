package onedrive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/fakereader"
)

// The figures of docs are printed by these two, with CONNECTOR_FIGURES set; without it they run on small drives.
func size(most int) int {
	if os.Getenv("CONNECTOR_FIGURES") != "" {
		return most
	}
	return 500
}

// forgetful stores nothing, and so takes no memory of its own.
type forgetful struct{ workertest.Store }

func (*forgetful) Known(context.Context) (map[string]worker.Known, error) { return nil, nil }
func (*forgetful) Put(context.Context, worker.Document) error             { return nil }
func (*forgetful) Checkpoint(context.Context, any) error                  { return nil }

// TestFirstSyncInAProcess is the process whose memory peakMemory measures.
func TestFirstSyncInAProcess(t *testing.T) {
	drive, endpoint, of := strings.Cut(os.Getenv("CONNECTOR_FIGURES_DRIVE"), " ")
	if !of {
		return // it is started by peakMemory
	}
	r, err := onedrive.Sync(t.Context(), onedrive.Config{Drive: drive}, onedrive.Options{
		Endpoint: endpoint, API: fakegraph.Client(), Plain: fakegraph.Plain(), Extract: fakereader.Plain{},
	}, &forgetful{})
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
func (w *world) peakMemory(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestFirstSyncInAProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "CONNECTOR_FIGURES_DRIVE="+w.drive+" "+w.fake.Endpoint())
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	for line := range strings.Lines(string(output)) {
		if _, said, found := strings.Cut(line, "peak memory"); found {
			t.Log("peak memory " + strings.TrimSpace(said))
		}
	}
}

func TestFiguresOfAFirstAndAnIncrementalSync(t *testing.T) {
	w, n := newWorld(t), size(10_000)
	var ids []string
	for folder := range n / 100 {
		parent := w.fake.Folder(w.root, fmt.Sprint("folder ", folder))
		for i := range 100 {
			text := strings.Repeat("some words of a text ", 50+(folder*37+i*11)%900) // 1 to 20 KB
			ids = append(ids, w.fake.File(parent, fmt.Sprint(i, ".txt"), text))
		}
	}
	began := time.Now()
	r, err := w.try(t.Context())
	took := time.Since(began)
	require.NoError(t, err)
	require.Equal(t, n, r.Put)
	t.Logf("first sync: %d files in %s, %.0f documents/s, %d requests", n, took, float64(n)/took.Seconds(), len(w.fake.Requests()))

	for i := range 10 {
		w.fake.Write(ids[i*n/10], fmt.Sprint("changed ", i))
	}
	began = time.Now()
	r, err = w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, 10, r.Put)
	requests := len(w.fake.Requests())
	t.Logf("10 changes: %d requests of the API, 10 downloads, %s", requests, time.Since(began))
	require.Equal(t, 1, requests)
	w.peakMemory(t)
}

func TestFiguresOfALongListingWithAKill(t *testing.T) {
	w, n := newWorld(t), size(100_000)
	parent := w.root
	for i := range n {
		if i%500 == 0 {
			parent = w.fake.Folder(w.root, fmt.Sprint("folder ", i))
		}
		w.fake.File(parent, fmt.Sprint(i, ".txt"), fmt.Sprint("text ", i))
	}
	killed := errors.New("killed")
	half := max(n/200/2, 1)
	w.sink.OnCheckpoint = func(n int) error {
		if n == half {
			return killed
		}
		return nil
	}
	began := time.Now()
	_, err := w.try(t.Context())
	require.ErrorIs(t, err, killed)
	w.sink.OnCheckpoint = nil
	r, err := w.try(t.Context())
	require.NoError(t, err)
	took := time.Since(began)
	twice, fetched := 0, 0
	for _, times := range w.fake.Downloads() {
		twice += times - 1
		fetched++
	}
	require.Equal(t, n, fetched)
	require.LessOrEqual(t, twice, 200)
	t.Logf("%d items, killed at page %d: %d fetched twice, %d pages after the kill, %s",
		n, half, twice, r.Pages, took)
	w.peakMemory(t)
}
