package onedrive_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The figures of docs are printed by these two, with CONNECTOR_FIGURES set; without it they run on small drives.
func size(most int) int {
	if os.Getenv("CONNECTOR_FIGURES") != "" {
		return most
	}
	return 500
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
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
	before := heap()
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
	t.Logf("%d items, killed at page %d: %d fetched twice, %d pages after the kill, %s, heap %d MiB to %d MiB with the stored documents",
		n, half, twice, r.Pages, took, before, heap())
}
