package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// tries runs syncs and returns how many of them the guard refused.
func tries(t *testing.T, store *workertest.Store, src source.Source, n int) (refused int) {
	t.Helper()
	for range n {
		_, err := sync1(t.Context(), store, src, source.Options{})
		if errors.Is(err, source.ErrDeletionsRefused) {
			refused++
			continue
		}
		require.NoError(t, err)
	}
	return refused
}

func texts(store *workertest.Store) (n int) {
	for _, d := range store.Docs() {
		if workertest.Text(d) != "" {
			n++
		}
	}
	return n
}

// hide has nothing of a place be there, though it is listed.
func (p *place) hide() {
	for id := range p.things {
		p.hidden[id] = true
		p.write(id, "while it is away")
	}
}

func TestAPlaceThatListsWhatItDoesNotGiveLosesNothingHoweverLongThatLasts(t *testing.T) {
	for _, n := range []int{1, 20, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p, store := stocked(t, n)
			p.hide()
			require.Positive(t, tries(t, store, p, 40), "its owner is told")
			require.Equal(t, n, texts(store))
			clear(p.hidden)
			tries(t, store, p, 20)
			require.NoError(t, p.differs(store))
		})
	}
}

func TestWhatIsNotThereTwiceGoesWhereItsOwnerAllowsIt(t *testing.T) {
	p, store := stocked(t, 100)
	p.hide()
	store.Allows = true
	require.Zero(t, tries(t, store, p, 30))
	require.Less(t, len(store.IDs()), 100)
}

func TestFewThatAreNotThereTwiceGo(t *testing.T) {
	p, store := stocked(t, 100)
	for _, id := range store.IDs()[:15] {
		p.hidden[id] = true
		p.write(id, "while it is away")
	}
	require.Zero(t, tries(t, store, p, 2))
	require.Len(t, store.IDs(), 85)
}

// dying looks, and ends its sync then.
type dying struct{ *place }

func (d dying) Look(ctx context.Context, s *source.Sync, ids []string) error {
	if err := d.place.Look(ctx, s, ids); err != nil {
		return err
	}
	return errors.New("503")
}

func TestASyncThatDiesWhileItLooksRemovesNothing(t *testing.T) {
	p, store := stocked(t, 300)
	for id := range p.things {
		p.hidden[id] = true
		p.write(id, "while it is away")
	}
	quiet(t, store, p)
	for range 5 {
		_, err := sync1(t.Context(), store, dying{p}, source.Options{})
		require.Error(t, err)
	}
	require.Len(t, store.IDs(), 300)
}

func TestATryThatFollowsAFailureIsNotTheNextSync(t *testing.T) {
	p, store := stocked(t, 3)
	p.write("t001", "new")
	p.hidden["t001"] = true
	_, err := sync1(t.Context(), store, dyingEnd{p}, source.Options{})
	require.Error(t, err)
	_, err = sync1(t.Context(), store, p, source.Options{}) // the retry, at once
	require.NoError(t, err)
	require.Contains(t, store.IDs(), "t001")
}

func TestWhatIsGoneWhenAChangeIsReadIsAway(t *testing.T) {
	_, store := stocked(t, 500)
	ids := store.IDs()
	src := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		for _, id := range ids {
			if err := s.Item(ctx, source.Item{ID: id, Title: "T", Version: "new", Read: func(context.Context) (source.Content, error) {
				return source.Content{}, source.ErrGone
			}}); err != nil {
				return nil, err
			}
		}
		return cursor{}, nil
	})
	_, err := sync1(t.Context(), store, src, source.Options{})
	require.NoError(t, err)
	require.Len(t, store.IDs(), 500, "a change will tell")
}

type dyingEnd struct{ *place }

func (d dyingEnd) List(ctx context.Context, s *source.Sync) (any, error) {
	if _, err := d.place.List(ctx, s); err != nil {
		return nil, err
	}
	return nil, errors.New("503")
}
