package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

func TestAListingThatWasRefusedIsMadeAnew(t *testing.T) {
	p, store := stocked(t, 60)
	all := map[string]thing{}
	for id, of := range p.things {
		all[id] = of
		if id >= "t010" {
			delete(p.things, id)
		}
	}
	p.stale = true
	for range 3 {
		_, err := sync1(t.Context(), store, p, source.Options{})
		require.ErrorIs(t, err, worker.ErrRelist)
	}
	p.things, store.Allows = all, true // the owner allows it, and it is all there again
	require.Equal(t, 60, quiet(t, store, p).Unchanged)
	require.NoError(t, p.differs(store))
}

func TestFoldersAndWhatHasNoTextDoNotCountForTheGuard(t *testing.T) {
	p, store := stocked(t, 50)
	clear(p.things)
	listing := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		s.BeginListing()
		for i := range 500 {
			it := source.Item{ID: fmt.Sprint("folder", i), Title: "A folder", Version: "1"}
			if i%2 == 0 {
				it.Unread = "an image holds no text"
			}
			if err := s.Item(ctx, it); err != nil {
				return nil, err
			}
		}
		return cursor{}, nil
	})
	_, err := sync1(t.Context(), store, listing, source.Options{})
	require.ErrorContains(t, err, "50 of the 50 documents")
}

func TestWhatThereWasNoRoomForCountsForTheGuard(t *testing.T) {
	p, store := stocked(t, 50)
	store.Refuses = func(worker.Document) bool { return true }
	for id := range p.things {
		p.write(id, "new text")
	}
	quiet(t, store, p) // what was stored before is found
	empty := lister(func(_ context.Context, s *source.Sync) (any, error) {
		s.BeginListing()
		return cursor{}, nil
	})
	_, err := sync1(t.Context(), store, empty, source.Options{})
	require.ErrorContains(t, err, "50 of the 50 documents")
}

func TestWhatIsGoneWhenItIsReadGoesNotPastTheGuard(t *testing.T) {
	store := workertest.New()
	of := func(read func(i int) (source.Content, error)) lister {
		return func(ctx context.Context, s *source.Sync) (any, error) {
			s.BeginListing()
			for i := range 50 {
				it := source.Item{ID: fmt.Sprint(i), Title: "A file", Read: func(context.Context) (source.Content, error) { return read(i) }}
				if err := s.Item(ctx, it); err != nil {
					return nil, err
				}
			}
			return cursor{}, nil
		}
	}
	_, err := sync1(t.Context(), store, of(func(i int) (source.Content, error) { return source.Content{Hash: fmt.Sprint("h", i)}, nil }), source.Options{})
	require.NoError(t, err)
	_, err = sync1(t.Context(), store, of(func(int) (source.Content, error) { return source.Content{}, source.ErrGone }), source.Options{})
	require.ErrorContains(t, err, "50 of the 50 documents")
	require.Len(t, store.IDs(), 50)
}

func TestWhatIsShownByAListingIsNotRemovedForBeingAway(t *testing.T) {
	p, store := stocked(t, 3)
	p.hidden["t001"] = true
	p.set("t001", func(t *thing) { t.version = p.next() })
	for range 3 {
		p.stale = true
		_, err := source.Run(t.Context(), store, lister(p.List), source.Options{})
		require.NoError(t, err)
		store.Complete()
		require.Contains(t, store.IDs(), "t001")
	}
}

func TestAPartialListingRemovesNothing(t *testing.T) {
	_, store := stocked(t, 3)
	_, err := sync1(t.Context(), store, lister(func(_ context.Context, s *source.Sync) (any, error) {
		s.BeginListing()
		s.Partial()
		return cursor{}, nil
	}), source.Options{})
	require.NoError(t, err)
	require.Len(t, store.IDs(), 3)
}

func TestAnItemWithoutAVersionIsReadEachTimeThoughItFailed(t *testing.T) {
	store, reads := workertest.New(), 0
	of := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		return cursor{}, s.Item(ctx, source.Item{ID: "a", Title: "A", Read: func(context.Context) (source.Content, error) {
			if reads++; reads < 3 {
				return source.Content{}, &source.Unreadable{Reason: "binary", Content: true}
			}
			return source.Content{Hash: "h"}, nil
		}})
	})
	for range 3 {
		_, err := sync1(t.Context(), store, of, source.Options{})
		require.NoError(t, err)
	}
	require.Empty(t, store.Docs()["a"].Err)
}

func TestAnItemThatGetsATextIsRead(t *testing.T) {
	store := workertest.New()
	var read func(context.Context) (source.Content, error)
	of := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		return cursor{}, s.Item(ctx, source.Item{ID: "a", Title: "A", Version: "1", Read: read})
	})
	for range 2 {
		_, err := sync1(t.Context(), store, of, source.Options{})
		require.NoError(t, err)
		read = func(context.Context) (source.Content, error) { return source.Content{Hash: "h"}, nil }
	}
	require.Equal(t, "h", store.Docs()["a"].ContentHash)
}

func TestTheContextOfOneItemDoesNotEndTheReadingOfOthers(t *testing.T) {
	store := workertest.New()
	_, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
		for i := range 10 {
			page, end := context.WithCancel(ctx)
			err := s.Item(page, source.Item{ID: fmt.Sprint(i), Read: func(context.Context) (source.Content, error) { return source.Content{Hash: "h"}, nil }})
			end()
			if err != nil {
				return nil, err
			}
		}
		return cursor{}, nil
	}), source.Options{})
	require.NoError(t, err)
	require.Len(t, store.IDs(), 10)
}

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { return nil, errors.New("no JSON") }

func TestAnItemThatCannotBeNamedOrRememberedFailsAlone(t *testing.T) {
	store := workertest.New()
	text := func(context.Context) (source.Content, error) { return source.Content{Hash: "h"}, nil }
	of := func(items ...source.Item) error {
		_, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
			for _, it := range items {
				if err := s.Item(ctx, it); err != nil {
					return nil, err
				}
			}
			return cursor{}, nil
		}), source.Options{})
		return err
	}
	require.NoError(t, of(
		source.Item{ID: "a\x00", Read: text}, source.Item{ID: strings.Repeat("x", 3000), Read: text}, source.Item{Read: text},
		source.Item{ID: "large", Memo: strings.Repeat("&", 9000), Read: text}, source.Item{ID: "fits", Memo: strings.Repeat("&", 8000), Read: text},
		source.Item{ID: "odd", Version: "v\x00", Read: text}, source.Item{ID: "fine", Read: text},
	))
	require.Equal(t, []string{"fine", "fits", "large", "odd"}, store.IDs())
	require.Contains(t, store.Docs()["large"].Err, "8192")
	require.Equal(t, json.RawMessage(`"`+strings.Repeat("&", 8000)+`"`), store.Docs()["fits"].Memo)
	require.Contains(t, store.Remarked(), "3 items have ids that cannot be stored")
	require.ErrorContains(t, of(source.Item{ID: "a", Memo: explosive{}, Read: text}), "no JSON")
}

func TestAListThatPanicsLeavesNoReader(t *testing.T) {
	store, reading := workertest.New(), make(chan struct{})
	ended := false
	require.Panics(t, func() {
		_, _ = sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
			_ = s.Item(ctx, source.Item{ID: "a", Read: func(ctx context.Context) (source.Content, error) {
				close(reading)
				<-ctx.Done()
				ended = true
				return source.Content{}, ctx.Err()
			}})
			<-reading
			panic("boom")
		}), source.Options{})
	})
	require.True(t, ended)
}

func TestWhatAListingLeftOutStaysAlsoWhereAnotherRunGoesOnWithIt(t *testing.T) {
	_, store := stocked(t, 30)
	die := true
	src := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		var at cursor
		if err := s.Cursor(&at); err != nil {
			return nil, err
		}
		if !at.Listing {
			at = cursor{Listing: true}
			s.BeginListing()
			s.Partial() // t000…t009 lie in a folder that cannot be listed now
			at.After = "t009"
			if err := s.Checkpoint(ctx, at); err != nil {
				return nil, err
			}
		} else {
			s.ResumeListing()
		}
		for i := 10; i < 30; i++ {
			if err := s.Item(ctx, source.Item{ID: fmt.Sprintf("t%03d", i), Title: "T", Version: "9", Read: func(context.Context) (source.Content, error) {
				return source.Content{Hash: "h"}, nil
			}}); err != nil {
				return nil, err
			}
		}
		if die {
			return nil, errors.New("503")
		}
		return cursor{}, nil
	})
	_, err := sync1(t.Context(), store, src, source.Options{})
	require.Error(t, err)
	die = false
	_, err = sync1(t.Context(), store, src, source.Options{})
	require.NoError(t, err)
	require.Len(t, store.IDs(), 30)
}

func TestWhatIsFoundThoughItFailsNowCountsForTheGuard(t *testing.T) {
	store := workertest.New()
	_, err := sync1(t.Context(), store, listAll(500, v1, okRead), source.Options{})
	require.NoError(t, err)
	_, err = sync1(t.Context(), store, listAll(500, func(int) string { return "2" }, func(int) (source.Content, error) {
		return source.Content{}, &source.Unreadable{Reason: "encrypted", Content: true}
	}), source.Options{})
	require.NoError(t, err)
	_, err = sync1(t.Context(), store, listAll(0, v1, okRead), source.Options{})
	require.ErrorContains(t, err, "500 of the 500 documents")
}

func TestWhatNobodyHasEverFoundIsNotCountedAsStored(t *testing.T) {
	store := workertest.New()
	read := func(i int) (source.Content, error) {
		if i < 1000 {
			return source.Content{}, &source.Unreadable{Reason: "permission denied"}
		}
		return okRead(i)
	}
	_, err := sync1(t.Context(), store, listAll(1400, v1, read), source.Options{})
	require.NoError(t, err)
	_, err = sync1(t.Context(), store, listAll(1000, v1, read), source.Options{})
	require.Error(t, err)
}

func TestWhatNobodyHasEverFoundMayGo(t *testing.T) {
	store := workertest.New()
	_, err := sync1(t.Context(), store, listAll(1, v1, func(int) (source.Content, error) { return source.Content{}, source.ErrAway }), source.Options{})
	require.NoError(t, err)
	_, err = sync1(t.Context(), store, listAll(0, v1, okRead), source.Options{})
	require.NoError(t, err)
}

func TestWhatTurnsOutToHaveTooLargeAMemoFails(t *testing.T) {
	store := workertest.New()
	for range 2 {
		_, err := sync1(t.Context(), store, listAll(1, v1, func(int) (source.Content, error) {
			return source.Content{Hash: "h", Now: &source.Item{Title: "A file", Version: "1", Memo: strings.Repeat("x", 9000)}}, nil
		}), source.Options{})
		require.NoError(t, err)
	}
	require.NotEmpty(t, store.Docs()["f0000"].Err)
}

func TestNothingThatAnItemSaysEndsTheSyncOfAllOthers(t *testing.T) {
	for name, give := range map[string]func(ctx context.Context, s *source.Sync) error{
		"fail": func(ctx context.Context, s *source.Sync) error {
			return s.Fail(ctx, source.Item{ID: strings.Repeat("x", 3000)}, source.Unreadable{Reason: "no"})
		},
		"title": func(ctx context.Context, s *source.Sync) error {
			return s.Item(ctx, source.Item{ID: "a", Title: strings.Repeat("\x00x", 30000), URL: "\x00", MediaType: "\xff", Version: "1", Read: func(context.Context) (source.Content, error) { return okRead(1) }})
		},
		"url": func(ctx context.Context, s *source.Sync) error {
			return s.Item(ctx, source.Item{ID: "a", URL: strings.Repeat("u", 30000), Read: func(context.Context) (source.Content, error) { return okRead(1) }})
		},
		"hash": func(ctx context.Context, s *source.Sync) error {
			return s.Item(ctx, source.Item{ID: "a", Read: func(context.Context) (source.Content, error) {
				return source.Content{Hash: strings.Repeat("h", 300)}, nil
			}})
		},
		"memo": func(ctx context.Context, s *source.Sync) error {
			return s.Item(ctx, source.Item{ID: "a", Memo: map[string]string{"a": "\x00"}, Read: func(context.Context) (source.Content, error) { return okRead(1) }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sync1(t.Context(), workertest.New(), lister(func(ctx context.Context, s *source.Sync) (any, error) {
				return cursor{}, give(ctx, s)
			}), source.Options{})
			require.NoError(t, err)
		})
	}
}

func TestNoContentEndsTheSyncOfAllOthers(t *testing.T) {
	for name, c := range map[string]source.Content{
		"hash bytes": {Hash: "\xff\xfe"},
		"hash NUL":   {Hash: "a\x00"},
		"no hash":    {},
		"title":      {Hash: "h", Title: "\xff\x00"},
		"type":       {Hash: "h", MediaType: "\xff\x00"},
		"heading":    {Hash: "h", Sections: []chunk.Section{{Text: "a\x00\xff", HeadingPath: []string{"\xff\x00"}}}},
		"like ours":  {Hash: "no text"},
		"failed":     {Hash: "failed away 0"},
	} {
		t.Run(name, func(t *testing.T) {
			store := workertest.New()
			for range 2 {
				_, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
					return cursor{}, errors.Join(s.Item(ctx, source.Item{ID: "a", Title: "A", Version: "1", Read: func(context.Context) (source.Content, error) {
						return c, nil
					}}), s.Item(ctx, keeper{}.item("b")))
				}), source.Options{})
				require.NoError(t, err)
			}
			require.Len(t, store.IDs(), 2)
		})
	}
}
