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

// shelf lists everything in two pages, with a checkpoint between them; it ends the listing, and then says what is lost because its
// folder is not there.
type shelf struct {
	first, second, folder []string
	gone                  bool // the folder
	dies                  bool // the sync, behind its first page
	stale                 bool // the cursor of changes is not accepted
}

type shelfCursor struct {
	Next string `json:"next"` // second: the second page; changes
}

func (p *shelf) give(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		err := s.Item(ctx, source.Item{ID: id, Title: "T", Version: "1", Read: func(context.Context) (source.Content, error) {
			return source.Content{Hash: "h" + id, Sections: []chunk.Section{{Text: "text " + id}}}, nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *shelf) List(ctx context.Context, s *source.Sync) (any, error) {
	var at shelfCursor
	if err := s.Cursor(&at); err != nil {
		return nil, err
	}
	if at.Next == "changes" && !p.stale {
		return at, nil
	}
	p.stale = false
	if at.Next == "second" {
		s.ResumeListing()
	} else {
		s.BeginListing()
		if err := p.give(ctx, s, p.first); err != nil {
			return nil, err
		}
		if !p.gone {
			if err := p.give(ctx, s, p.folder); err != nil {
				return nil, err
			}
		}
		if err := s.Checkpoint(ctx, shelfCursor{"second"}); err != nil || p.dies {
			return nil, errors.Join(err, errors.New("the worker stops"))
		}
	}
	if err := p.give(ctx, s, p.second); err != nil {
		return nil, err
	}
	if err := s.EndListing(ctx, nil); err != nil {
		return nil, err
	}
	if p.gone {
		for _, id := range p.folder {
			s.MarkLost(id)
		}
	}
	return shelfCursor{"changes"}, nil
}

func (p *shelf) Look(context.Context, *source.Sync, []string) error { return nil }

func numbered(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%04d", prefix, i))
	}
	return all
}

// Everything is listed again in two runs, between which a folder goes.
func TestARefusalBehindAListingForgetsNothingThatWasShown(t *testing.T) {
	for name, comesBack := range map[string]bool{"the folder is gone, and its owner allows it": false, "the folder is there again": true} {
		t.Run(name, func(t *testing.T) {
			p, store := &shelf{first: numbered("a", 100), second: numbered("b", 150), folder: numbered("f", 200)}, workertest.New()
			one := func() error {
				_, err := sync1(t.Context(), store, p, source.Options{})
				return err
			}
			require.NoError(t, one())
			p.stale, p.dies = true, true
			require.Error(t, one())
			p.dies, p.gone = false, true
			require.ErrorIs(t, one(), source.ErrDeletionsRefused)
			require.Equal(t, 450, texts(store))
			p.gone, store.Allows = !comesBack, !comesBack
			for range 3 {
				require.NoError(t, one())
			}
			require.Equal(t, map[bool]int{false: 250, true: 450}[comesBack], texts(store))
		})
	}
}

// EndListing removes ten; of the folder's documents, which are lost, it is refused.
func TestARefusalSaysWhatTheListingHasRemoved(t *testing.T) {
	p, store := &shelf{first: numbered("a", 100), second: numbered("b", 150), folder: numbered("f", 200)}, workertest.New()
	one := func() error {
		_, err := sync1(t.Context(), store, p, source.Options{})
		return err
	}
	require.NoError(t, one())
	p.stale, p.dies = true, true
	require.Error(t, one())
	p.dies, p.gone, p.stale, p.second = false, true, false, p.second[10:]
	err := one()
	require.ErrorIs(t, err, source.ErrDeletionsRefused)
	require.ErrorContains(t, err, "no more than 10 documents were deleted: 210 of the 450 documents that were stored are not there any more; if")
	require.Equal(t, 440, texts(store))
}
