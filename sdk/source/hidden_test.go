package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker/workertest"
)

func TestADocumentWhoseTextIsTakenAwayIsDeletedAndItsMemoStays(t *testing.T) {
	for name, read := range map[string]func(context.Context) (source.Content, error){
		"it is given without": nil,
		"found while it is read": func(context.Context) (source.Content, error) {
			return source.Content{Now: &source.Item{Title: "A file", Memo: "where it was"}}, source.ErrNoText
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := workertest.New()
			give := func(it source.Item) source.Result {
				result, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
					return cursor{}, s.Item(ctx, it)
				}), source.Options{})
				require.NoError(t, err)
				return result
			}
			text := source.Item{ID: "a", Title: "A file", Version: "1", Read: func(context.Context) (source.Content, error) {
				return source.Content{Hash: "h", Sections: []chunk.Section{{Text: "text"}}}, nil
			}}
			require.Equal(t, 1, give(text).Put)
			require.Equal(t, 1, give(source.Item{ID: "a", Title: "A file", Memo: "where it was", Read: read}).Deleted)
			require.Empty(t, store.Docs()["a"].Chunks)
			require.Equal(t, `"where it was"`, string(store.Docs()["a"].Memo))
			require.Equal(t, 1, give(text).Put, "it is there again")
		})
	}
}

func TestWhatIsAtHandDoesNotSayThatThePlaceAnswers(t *testing.T) {
	away := errors.New("no route to it")
	_, err := sync1(t.Context(), workertest.New(), lister(func(ctx context.Context, s *source.Sync) (any, error) {
		for i := range 50 {
			err := errors.Join(s.Item(ctx, source.Item{ID: fmt.Sprint("at hand ", i), Read: func(context.Context) (source.Content, error) {
				return source.Content{Hash: "h", AtHand: true}, nil
			}}), s.Item(ctx, source.Item{ID: fmt.Sprint(i), Version: "1", Read: func(context.Context) (source.Content, error) {
				return source.Content{}, &source.Unreadable{Reason: "the connection broke off", Trouble: true}
			}}))
			if err != nil {
				return nil, err
			}
		}
		return cursor{}, nil
	}), source.Options{Answers: func(context.Context) error { return away }})
	require.ErrorIs(t, err, away)
}

func TestWhatAListingKeepsMayDependOnWhatItHasShown(t *testing.T) {
	p, store := stocked(t, 3)
	_, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
		s.BeginListing()
		if err := s.Item(ctx, p.item("t000", p.things["t000"])); err != nil {
			return nil, err
		}
		return cursor{}, s.EndListing(ctx, func(id string, _ source.Stored) bool { return id == "t001" && !s.Missing("t000") })
	}), source.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"t000", "t001"}, store.IDs())
}
