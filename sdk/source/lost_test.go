package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// keeper lists everything once, and keeps what it does not list: only Look tells of these, as of files that are attached to messages.
type keeper struct {
	ids  []string
	away func(id string) bool
}

func (k keeper) List(ctx context.Context, s *source.Sync) (any, error) {
	var at struct{ N int }
	at.N = -1
	if err := s.Cursor(&at); err != nil {
		return nil, err
	}
	if at.N < 0 {
		s.BeginListing()
		if s.First() {
			for _, id := range k.ids {
				if err := s.Item(ctx, k.item(id)); err != nil {
					return nil, err
				}
			}
		}
		if err := s.EndListing(ctx, func(string, source.Stored) bool { return true }); err != nil {
			return nil, err
		}
	} else { // the changes name what is away once
		for _, id := range k.ids {
			if of, _ := s.Stored(id); k.away(id) && of.Failed == source.None {
				if _, err := s.Away(ctx, source.Item{ID: id}); err != nil {
					return nil, err
				}
			}
		}
	}
	at.N = 1
	return at, nil
}

func (k keeper) item(id string) source.Item {
	return source.Item{ID: id, Title: "T", Version: "1", Read: func(context.Context) (source.Content, error) {
		return source.Content{Hash: "h" + id, Sections: []chunk.Section{{Text: "text " + id}}}, nil
	}}
}

func (k keeper) Look(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		var err error
		if k.away(id) {
			_, err = s.Away(ctx, source.Item{ID: id})
		} else {
			err = s.Item(ctx, k.item(id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ids(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("t%03d", i))
	}
	return ids
}

func TestWhatIsLostGoesOnceItsOwnerAllowsItForOneRun(t *testing.T) {
	store := workertest.New()
	k := keeper{ids: ids(100), away: func(string) bool { return false }}
	_, err := sync1(t.Context(), store, k, source.Options{})
	require.NoError(t, err)
	k.away = func(id string) bool { return id < "t050" }
	for range 30 {
		_, err := sync1(t.Context(), store, k, source.Options{})
		store.Allows = false // one run; spent where it has completed
		if errors.Is(err, worker.ErrRelist) {
			store.Allows = true
		} else {
			require.NoError(t, err)
		}
	}
	require.Len(t, store.IDs(), 50)
}

func TestWhatIsFirstMissingInASyncThatIsRefusedStaysInItsRetry(t *testing.T) {
	store := workertest.New()
	away := map[string]bool{}
	k := keeper{ids: ids(100), away: func(id string) bool { return away[id] }}
	one := func() error {
		_, err := sync1(t.Context(), store, k, source.Options{})
		return err
	}
	require.NoError(t, one())
	away["t099"] = true // Round becomes 1
	require.NoError(t, one())
	delete(away, "t099")
	require.NoError(t, one())
	for _, id := range k.ids[:50] {
		away[id] = true
	}
	require.NoError(t, one()) // marked at round 1
	away["t090"] = true       // first missing in the sync that is refused
	require.ErrorIs(t, one(), worker.ErrRelist)
	for _, id := range k.ids[:50] {
		delete(away, id)
	}
	require.NoError(t, one()) // the retry, at once
	require.Contains(t, store.IDs(), "t090")
}

func TestWhatStaysAwayHoldsUpNothingThatFailed(t *testing.T) {
	p, store := stocked(t, 200)
	for i := range 120 {
		p.hidden[fmt.Sprintf("t%03d", i)] = true
		p.write(fmt.Sprintf("t%03d", i), "new")
	}
	p.set("t150", func(t *thing) { t.damaged, t.version = "503", p.next() })
	for i := 160; i < 170; i++ {
		id := fmt.Sprintf("t%03d", i)
		p.set(id, func(t *thing) { t.damaged, t.version = "503", p.next() })
	}
	g := ghost{p}
	one := func() {
		_, err := sync1(t.Context(), store, g, source.Options{})
		require.NoError(t, err)
	}
	one()
	// readable again; no change says so
	for _, i := range []int{150, 160, 161, 162, 163, 164, 165, 166, 167, 168, 169} {
		id := fmt.Sprintf("t%03d", i)
		th := p.things[id]
		th.damaged, th.text = "", "new text"
		p.things[id] = th
	}
	for range 50 {
		one()
	}
	bad := 0
	for i := 150; i < 170; i++ {
		if store.Docs()[fmt.Sprintf("t%03d", i)].Err != "" {
			bad++
		}
	}
	require.Zero(t, bad)
}

// ghost gives what is there to be listed, also where its content is not there.
type ghost struct{ *place }

func (g ghost) Look(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		if err := s.Item(ctx, g.item(id, g.things[id])); err != nil {
			return err
		}
	}
	return nil
}

func TestWhatAListingRemovesAndWhatIsLostBesidesCountTogether(t *testing.T) {
	_, store := stocked(t, 100)
	ids := store.IDs()
	src := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		s.BeginListing()
		for _, id := range ids[30:] {
			if err := s.Item(ctx, keeper{}.item(id)); err != nil {
				return nil, err
			}
		}
		if err := s.EndListing(ctx, nil); err != nil {
			return nil, err
		}
		s.Lose(ids[30:60]...)
		return cursor{}, nil
	})
	_, err := sync1(t.Context(), store, src, source.Options{})
	require.Error(t, err, "60 of 100")
}

func TestWhatWasRefusedAndHasNoVersionIsReadEachTime(t *testing.T) {
	store := workertest.New()
	store.Refuses = func(worker.Document) bool { return true }
	opts := source.Options{Unresumed: true}
	none := func(int) string { return "" }
	for range 3 {
		_, err := sync1(t.Context(), store, listAll(300, none, okRead), opts)
		require.NoError(t, err)
	}
	store.Refuses = func(d worker.Document) bool { return d.SourceID != "f0250" }
	reads := map[int]int{}
	small := func(i int) (source.Content, error) {
		reads[i]++
		return source.Content{Hash: fmt.Sprint("new", i), Sections: []chunk.Section{{Text: "x"}}}, nil
	}
	opts.Workers = 1
	_, err := sync1(t.Context(), store, listAll(300, none, small), opts)
	require.NoError(t, err)
	require.Len(t, reads, 300)
}
