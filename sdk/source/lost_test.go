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
				if _, err := s.MarkAway(ctx, source.Item{ID: id}); err != nil {
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
			_, err = s.MarkAway(ctx, source.Item{ID: id})
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
		if errors.Is(err, source.ErrDeletionsRefused) {
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
	require.ErrorIs(t, one(), source.ErrDeletionsRefused)
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
		for _, id := range ids[60:] {
			if err := s.Item(ctx, keeper{}.item(id)); err != nil {
				return nil, err
			}
		}
		if err := s.EndListing(ctx, func(id string, _ source.Stored) bool { return id >= ids[30] }); err != nil {
			return nil, err
		}
		for _, id := range ids[30:60] {
			s.MarkLost(id)
		}
		return cursor{}, nil
	})
	_, err := sync1(t.Context(), store, src, source.Options{})
	require.Error(t, err, "60 of 100")
}

func TestAListingMayBeginWhileChangesAreRead(t *testing.T) {
	_, store := stocked(t, 100)
	src := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		for _, id := range store.IDs() {
			if err := s.Item(ctx, source.Item{ID: id, Title: "T", Version: "new", Read: func(context.Context) (source.Content, error) {
				return source.Content{}, source.ErrGone
			}}); err != nil {
				return nil, err
			}
		}
		s.BeginListing() // the cursor was refused meanwhile
		s.Partial()
		for _, id := range store.IDs() {
			if err := s.Item(ctx, source.Item{ID: id, Title: "T", Version: "new2", Read: func(context.Context) (source.Content, error) {
				return source.Content{}, source.ErrGone
			}}); err != nil {
				return nil, err
			}
		}
		return cursor{}, nil
	})
	_, err := sync1(t.Context(), store, src, source.Options{})
	require.NoError(t, err)
	require.Len(t, store.IDs(), 100)
}

func TestWhatIsLostWithAMemoOutlivesAListingThatDies(t *testing.T) {
	store := workertest.New()
	step := 0
	src := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		at := cursor{}
		if err := s.Cursor(&at); err != nil {
			return nil, err
		}
		it := keeper{}.item("a")
		it.Memo = "where it was"
		b := keeper{}.item("b")
		switch step {
		case 0:
			return cursor{}, errors.Join(s.Item(ctx, it), s.Item(ctx, b))
		case 1:
			_, err := s.MarkAway(ctx, source.Item{ID: "a", Title: "T", Memo: "where it was"})
			return cursor{}, err
		case 2:
			s.BeginListing()
			if err := s.Item(ctx, b); err != nil {
				return nil, err
			}
			if _, err := s.MarkAway(ctx, source.Item{ID: "a", Title: "T", Memo: "away"}); err != nil {
				return nil, err
			}
			if err := s.Checkpoint(ctx, cursor{Listing: true}); err != nil {
				return nil, err
			}
			return nil, errors.New("503")
		}
		s.ResumeListing()
		return cursor{}, nil
	})
	for step = range 4 {
		_, err := sync1(t.Context(), store, src, source.Options{})
		require.Equal(t, step == 2, err != nil, "%d %v", step, err)
	}
	require.Contains(t, store.IDs(), "a", "it has a memo")
}

// folders lists folders beside the items of a keeper.
func folders(k keeper, n int) lister {
	return func(ctx context.Context, s *source.Sync) (any, error) {
		s.BeginListing()
		for i := range n {
			if err := s.Item(ctx, source.Item{ID: fmt.Sprint("folder", i), Title: "A folder", Version: "1"}); err != nil {
				return nil, err
			}
		}
		for _, id := range k.ids {
			if err := s.Item(ctx, k.item(id)); err != nil {
				return nil, err
			}
		}
		return cursor{}, nil
	}
}

func TestFoldersAreNoDocumentsThatAreLeft(t *testing.T) {
	store := workertest.New()
	_, err := sync1(t.Context(), store, folders(keeper{ids: ids(5)}, 10), source.Options{})
	require.NoError(t, err)
	_, err = sync1(t.Context(), store, folders(keeper{}, 10), source.Options{})
	require.ErrorContains(t, err, "5 of the 5 documents", "by a listing")
	_, err = sync1(t.Context(), store, lister(func(_ context.Context, s *source.Sync) (any, error) {
		for _, id := range ids(5) {
			s.MarkLost(id)
		}
		return cursor{}, nil
	}), source.Options{})
	require.ErrorContains(t, err, "5 of the 5 documents", "for being lost")
}

func TestFewThatAreLostAreAskedAboutWhereAllElseIsAway(t *testing.T) {
	for _, n := range []int{15, 200} {
		store := workertest.New()
		k := keeper{ids: ids(n), away: func(string) bool { return false }}
		_, err := sync1(t.Context(), store, k, source.Options{})
		require.NoError(t, err)
		k.away = func(string) bool { return true }
		_, err = sync1(t.Context(), store, k, source.Options{Again: 1})
		require.NoError(t, err)
		_, err = sync1(t.Context(), store, k, source.Options{Again: 1}) // looks at one of them
		require.ErrorContains(t, err, fmt.Sprintf("%d of the %d documents", n, n))
	}
}

func TestWhatIsListedAndNotThereIsNeverLost(t *testing.T) {
	store := workertest.New()
	there := true
	src := listAll(30, func(int) string { return fmt.Sprint(there) }, func(i int) (source.Content, error) {
		if i == 7 && !there {
			return source.Content{}, source.ErrAway
		}
		return okRead(i)
	})
	for n := range 5 {
		there = n == 0
		_, err := sync1(t.Context(), store, src, source.Options{})
		require.NoError(t, err)
		require.Len(t, store.IDs(), 30)
	}
}

func TestWhatIsLostWithAMemoStaysWithoutItsText(t *testing.T) {
	store := workertest.New()
	reads := 0
	item := func(there bool) source.Item {
		it := source.Item{ID: "t000", Title: "T", Version: "1", Memo: "where it was"}
		if there {
			it.Read = func(context.Context) (source.Content, error) {
				reads++
				return okRead(0)
			}
		}
		return it
	}
	give := func(f func(ctx context.Context, s *source.Sync) error) source.Result {
		r, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) { return cursor{}, f(ctx, s) }), source.Options{})
		require.NoError(t, err)
		return r
	}
	other := func(ctx context.Context, s *source.Sync) error { return s.Item(ctx, keeper{}.item("t001")) }
	give(func(ctx context.Context, s *source.Sync) error {
		return errors.Join(s.Item(ctx, item(true)), other(ctx, s))
	})
	away := func(ctx context.Context, s *source.Sync) error {
		it := item(true)
		it.Unread = "it is not even read"
		_, err := s.MarkAway(ctx, it)
		return err
	}
	give(away)
	require.NotEmpty(t, workertest.Text(store.Docs()["t000"]))
	require.Equal(t, 1, give(away).Deleted)
	d := store.Docs()["t000"]
	require.Empty(t, d.Err)
	require.Empty(t, workertest.Text(d))
	require.Equal(t, `"where it was"`, string(d.Memo))
	store.Ops()
	give(func(ctx context.Context, s *source.Sync) error { return s.Item(ctx, item(false)) })
	require.Empty(t, store.Ops(), "so it is stored")
	give(func(ctx context.Context, s *source.Sync) error { return s.Item(ctx, item(true)) })
	require.Equal(t, 2, reads)
	require.NotEmpty(t, workertest.Text(store.Docs()["t000"]))
}

func TestWhatIsLostAndGivenAgainStays(t *testing.T) {
	store := workertest.New()
	k := keeper{ids: ids(30), away: func(string) bool { return false }}
	_, err := sync1(t.Context(), store, k, source.Options{})
	require.NoError(t, err)
	_, err = sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
		for _, id := range []string{"t001", "t002", "t003"} {
			s.MarkLost(id)
		}
		s.UnmarkLost("t002")
		return cursor{}, s.Item(ctx, k.item("t001"))
	}), source.Options{})
	require.NoError(t, err)
	require.NotContains(t, store.IDs(), "t003")
	require.Len(t, store.IDs(), 29)
}

// remover says of what it is asked for that it is gone.
type remover struct{ lister }

func (remover) Look(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		if err := s.Remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func TestWhatAListingHasShownAndIsGoneGoesThoughTheListingDies(t *testing.T) {
	store := workertest.New()
	step := 0
	src := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		a, b := keeper{}.item("a"), keeper{}.item("b")
		gone := a
		gone.Version, gone.Read = "2", func(context.Context) (source.Content, error) { return source.Content{}, source.ErrGone }
		switch step {
		case 0:
			return cursor{}, errors.Join(s.Item(ctx, a), s.Item(ctx, b))
		case 1:
			s.BeginListing()
			if err := errors.Join(s.Item(ctx, a), s.Item(ctx, b), s.Item(ctx, gone), s.Checkpoint(ctx, cursor{Listing: true})); err != nil {
				return nil, err
			}
			return nil, errors.New("503")
		}
		s.ResumeListing()
		return cursor{}, nil
	})
	for step = range 3 {
		_, err := sync1(t.Context(), store, remover{src}, source.Options{})
		require.Equal(t, step == 1, err != nil, "%d %v", step, err)
	}
	require.Equal(t, []string{"b"}, store.IDs())
}

func TestWhatIsListedAndNotThereGoesOnceItsOwnerAllowsIt(t *testing.T) {
	p, store := stocked(t, 100)
	p.hide()
	refused := 0
	for range 20 {
		_, err := sync1(t.Context(), store, p, source.Options{})
		store.Allows = errors.Is(err, source.ErrDeletionsRefused)
		if store.Allows {
			refused++
			continue
		}
		require.NoError(t, err)
	}
	require.Equal(t, 1, refused)
	require.Empty(t, store.IDs())
}

// mute says nothing of what it is asked for, as where items answer 403 or 503 while the place answers.
type mute struct{ *place }

func (mute) Look(context.Context, *source.Sync, []string) error { return nil }

// mixed: one is lost; others are listed, and cannot be given.
type mixed struct {
	*place
	lost string
}

func (m mixed) Look(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		var err error
		if id == m.lost {
			_, err = s.MarkAway(ctx, source.Item{ID: id})
		} else {
			err = s.Item(ctx, m.item(id, m.things[id]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestOneLostFileBesideAFolderThatMayNotBeOpenedGoes(t *testing.T) {
	p, store := stocked(t, 800)
	for i := range 250 { // a folder that the account may not open any more: its files are listed
		id := fmt.Sprintf("t%03d", i)
		p.hidden[id] = true
		p.write(id, "new")
	}
	p.hidden["t700"] = true
	p.write("t700", "new")
	m := mixed{p, "t700"}
	for range 4 {
		_, err := sync1(t.Context(), store, m, source.Options{Again: 1000})
		require.NoError(t, err)
	}
	require.NotContains(t, store.IDs(), "t700")
	require.Len(t, store.IDs(), 799)
}
