package source_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// listAll is a source that lists everything at each sync (files).
func listAll(n int, ver func(i int) string, read func(i int) (source.Content, error)) lister {
	return func(ctx context.Context, s *source.Sync) (any, error) {
		s.BeginListing()
		for i := range n {
			it := source.Item{
				ID: fmt.Sprintf("f%04d", i), Title: "A file", Version: ver(i),
				Read: func(context.Context) (source.Content, error) { return read(i) },
			}
			if err := s.Item(ctx, it); err != nil {
				return nil, err
			}
		}
		return struct{}{}, nil
	}
}

func v1(int) string { return "1" }

func okRead(i int) (source.Content, error) {
	return source.Content{Hash: fmt.Sprint("h", i), Sections: []chunk.Section{{Text: fmt.Sprint("text ", i)}}}, nil
}

func TestWhatAListingCouldNotStoreIsReadAgainMoreOftenWhereThatHelps(t *testing.T) {
	store := workertest.New()
	store.Refuses = func(worker.Document) bool { return true }
	opts := source.Options{Unresumed: true}
	_, err := sync1(t.Context(), store, listAll(5000, v1, okRead), opts)
	require.NoError(t, err)
	store.Refuses = nil
	for n := 1; n <= 60; n++ {
		r, err := sync1(t.Context(), store, listAll(5000, v1, okRead), opts)
		require.NoError(t, err)
		if r.Unchanged == 5000 && r.Put == 0 {
			t.Logf("all stored after %d syncs", n-1)
			require.LessOrEqual(t, n-1, 7)
			return
		}
	}
	t.Fatal("not in 60")
}

func TestWhatNeverFitsHoldsUpNothingThatDoes(t *testing.T) {
	store := workertest.New()
	full := true
	store.Refuses = func(d worker.Document) bool { return full || d.SourceID < "f0100" }
	opts := source.Options{Unresumed: true}
	for range 20 {
		_, err := sync1(t.Context(), store, listAll(300, v1, okRead), opts)
		require.NoError(t, err)
		full = false
	}
	bad := 0
	for id, d := range store.Docs() {
		if id >= "f0100" && d.Err != "" {
			bad++
		}
	}
	require.Zero(t, bad, "of 200 that there is room for")
}

func TestWhatCouldNotBeStoredIsReadOnceItHasChanged(t *testing.T) {
	store := workertest.New()
	store.Refuses = func(d worker.Document) bool { return true }
	opts := source.Options{Unresumed: true}
	ver := v1
	for range 3 {
		_, err := sync1(t.Context(), store, listAll(300, ver, okRead), opts)
		require.NoError(t, err)
	}
	ver = func(int) string { return "2" } // each was made smaller
	store.Refuses = nil
	r, err := sync1(t.Context(), store, listAll(300, ver, okRead), opts)
	require.NoError(t, err)
	require.Equal(t, 300, r.Put)
}

func TestWhatTurnedOutToHaveNoTextIsReadOnce(t *testing.T) {
	store := workertest.New()
	reads := 0
	none := func(int) (source.Content, error) { reads++; return source.Content{}, source.ErrNoText }
	for range 3 {
		_, err := sync1(t.Context(), store, listAll(10, v1, none), source.Options{Workers: 1})
		require.NoError(t, err)
	}
	t.Log("reads", reads, "ops", len(store.Ops()))
	require.Equal(t, 10, reads)
}
