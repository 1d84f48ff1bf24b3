package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

func quiet(t *testing.T, store *workertest.Store, p *place) source.Result {
	t.Helper()
	result, err := sync1(t.Context(), store, p, source.Options{})
	require.NoError(t, err)
	return result
}

// stocked is a place of n things that was synced once.
func stocked(t *testing.T, n int) (*place, *workertest.Store) {
	t.Helper()
	p, store := newPlace(), workertest.New()
	for i := range n {
		p.write(fmt.Sprintf("t%03d", i), fmt.Sprint("text ", i))
	}
	quiet(t, store, p)
	require.NoError(t, p.differs(store))
	p.reads, p.looks = 0, nil
	store.Ops()
	return p, store
}

func TestWhatHasNotChangedIsNeitherReadNorWritten(t *testing.T) {
	p, store := stocked(t, 10)
	p.stale = true
	result := quiet(t, store, p)
	require.Equal(t, source.Result{Listed: 10, Unchanged: 10}, result)
	require.Zero(t, p.reads)
	require.Empty(t, store.Ops())
}

func TestANewTitleOrPlaceIsTouchedWithoutReading(t *testing.T) {
	p, store := stocked(t, 3)
	p.set("t001", func(t *thing) { t.title, t.folder = "Renamed", "elsewhere" })
	require.Equal(t, source.Result{Listed: 1, Touched: 1}, quiet(t, store, p))
	require.Zero(t, p.reads)
	require.NoError(t, p.differs(store))
}

func TestTheSameContentUnderANewVersionIsTouched(t *testing.T) {
	p, store := stocked(t, 3)
	p.set("t001", func(t *thing) { t.version = p.next() })
	require.Equal(t, source.Result{Listed: 1, Touched: 1}, quiet(t, store, p))
	require.Equal(t, 1, p.reads)
}

func TestWhatARunHasPutIsPutAgainWhenItIsRenamed(t *testing.T) {
	p, store := stocked(t, 1)
	p.page = 1
	p.write("t000", "new text")
	p.set("t000", func(t *thing) { t.title = "Renamed" })
	renamed := false
	p.between = func() {
		if len(store.Ops()) > 0 && !renamed {
			renamed = true
			p.set("t000", func(t *thing) { t.title = "Renamed again" })
		}
	}
	quiet(t, store, p) // the store refuses a touch of what was put
	require.True(t, renamed)
	require.NoError(t, p.differs(store))
}

func TestWhatARunHasTouchedIsTouchedAgainWhenItIsRenamed(t *testing.T) {
	p, store := stocked(t, 1)
	p.page = 1
	p.set("t000", func(t *thing) { t.title = "Renamed" })
	p.between = func() {
		if p.things["t000"].title == "Renamed" && len(store.Ops()) > 0 {
			p.set("t000", func(t *thing) { t.title = "Renamed again" })
		}
	}
	require.Equal(t, 2, quiet(t, store, p).Touched)
	require.Zero(t, p.reads)
	require.NoError(t, p.differs(store))
}

func TestWhatIsGoneIsRemovedAtOnce(t *testing.T) {
	p, store := stocked(t, 3)
	p.remove("t001")
	require.Equal(t, source.Result{Deleted: 1}, quiet(t, store, p))
	require.NoError(t, p.differs(store))
}

func TestWhatIsOnlyNotThereStaysForOneSync(t *testing.T) {
	p, store := stocked(t, 3)
	p.hidden["t001"] = true
	p.write("t001", "while it is away")
	require.Equal(t, source.Result{Failed: 1}, quiet(t, store, p))
	require.Equal(t, "text 1", workertest.Text(store.Docs()["t001"]), "what was stored is found")
	require.Equal(t, `{"folder":""}`, string(store.Docs()["t001"].Memo))
	delete(p.hidden, "t001")
	quiet(t, store, p)
	require.NoError(t, p.differs(store), "it was looked for again")

	p.hidden["t001"] = true
	p.write("t001", "away for good")
	quiet(t, store, p)
	require.Contains(t, store.IDs(), "t001")
	quiet(t, store, p)
	require.NotContains(t, store.IDs(), "t001", "the second sync does not find it either")
}

func TestANewItemThatIsNotThereWhenItIsReadIsLookedForByTheNextSync(t *testing.T) {
	p, store := stocked(t, 3)
	p.write("new", "text of it")
	p.hidden["new"] = true
	away := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		at := cursor{}
		if err := s.Cursor(&at); err != nil {
			return nil, err
		}
		at.Changes = len(p.changes) // it is not listed again
		return at, s.Item(ctx, p.item("new", p.things["new"]))
	})
	_, err := sync1(t.Context(), store, away, source.Options{})
	require.NoError(t, err)
	delete(p.hidden, "new")
	quiet(t, store, p)
	require.NoError(t, p.differs(store))
}

func TestAnItemThatIsNotThereTwiceInOneSyncIsAwayOnce(t *testing.T) {
	p, store := stocked(t, 3)
	p.page = 1
	p.hidden["t001"] = true
	p.write("t001", "a")
	p.write("t001", "b")
	quiet(t, store, p)
	require.Contains(t, store.IDs(), "t001")
}

func TestAFailureOfContentIsReadAgainOnceTheContentOrTheReadingChanges(t *testing.T) {
	p, store := stocked(t, 3)
	p.set("t001", func(t *thing) { t.version = p.next(); t.damaged, t.content = "binary", true })
	require.Equal(t, 1, quiet(t, store, p).Failed)
	p.reads = 0
	p.stale = true
	require.Equal(t, source.Result{Listed: 3, Unchanged: 3}, quiet(t, store, p))
	require.Zero(t, p.reads)

	p.looks = nil
	_, err := sync1(t.Context(), store, p, source.Options{Reading: "2"})
	require.NoError(t, err)
	require.Equal(t, []string{"t001"}, p.looks, "it was not listed: it is looked at")
	require.Equal(t, 1, p.reads)
	p.reads = 0
	p.set("t001", func(t *thing) { t.version = p.next(); t.damaged = "" })
	_, err = sync1(t.Context(), store, p, source.Options{Reading: "2"})
	require.NoError(t, err)
	require.NoError(t, p.differs(store))
}

func TestWhatCouldNotBeReadIsTriedAgainByEachSyncAndWrittenOnce(t *testing.T) {
	p, store := stocked(t, 3)
	p.set("t001", func(t *thing) { t.version = p.next(); t.damaged = "no permission" })
	quiet(t, store, p)
	store.Ops()
	for range 3 {
		require.Equal(t, source.Result{Listed: 1, Unchanged: 1}, quiet(t, store, p))
	}
	require.Empty(t, store.Ops())
	p.mu.Lock()
	repaired := p.things["t001"]
	repaired.damaged = ""
	p.things["t001"] = repaired // no change says so
	p.mu.Unlock()
	quiet(t, store, p)
	require.NoError(t, p.differs(store))
}

func TestWhatCouldNotBeStoredIsTriedAgainMoreOftenWhereThatHelps(t *testing.T) {
	p, store := newPlace(), workertest.New()
	for i := range 700 {
		p.write(fmt.Sprintf("t%03d", i), fmt.Sprint("text ", i))
	}
	store.Refuses = func(worker.Document) bool { return true }
	quiet(t, store, p)
	quiet(t, store, p)
	require.Len(t, p.looks, source.DefaultAgain, "a full quota costs little")
	p.looks, store.Refuses = nil, nil
	quiet(t, store, p)
	require.Len(t, p.looks, source.DefaultAgain)
	for range 2 {
		quiet(t, store, p)
	}
	require.NoError(t, p.differs(store))
}

func TestAListingRemovesWhatItDoesNotShow(t *testing.T) {
	p, store := stocked(t, 100)
	for i := range 30 {
		delete(p.things, fmt.Sprintf("t%03d", i))
	}
	p.stale = true
	require.Equal(t, source.Result{Listed: 70, Unchanged: 70, Deleted: 30}, quiet(t, store, p))
	require.NoError(t, p.differs(store))
}

func TestAListingThatShowsSuspiciouslyLittleRemovesNothingUntilThatIsAllowed(t *testing.T) {
	for name, gone := range map[string]int{"a third": 31, "everything": 100} {
		t.Run(name, func(t *testing.T) {
			p, store := stocked(t, 100)
			for i := range gone {
				delete(p.things, fmt.Sprintf("t%03d", i))
			}
			p.stale = true
			_, err := sync1(t.Context(), store, p, source.Options{})
			require.ErrorContains(t, err, fmt.Sprintf("%d of the 100 documents", gone))
			require.ErrorContains(t, err, "echomind connectors trigger 7 --allow-deletions")
			require.False(t, errors.Is(err, worker.ErrPermanent))
			require.Len(t, store.IDs(), 100)
			store.Allows, p.stale = true, true
			require.Equal(t, gone, quiet(t, store, p).Deleted)
		})
	}
}

func TestAPlaceThatIsSuddenlyEmptyIsAskedAboutHoweverLittleIsStored(t *testing.T) {
	p, store := stocked(t, 1)
	clear(p.things)
	p.stale = true
	_, err := sync1(t.Context(), store, p, source.Options{})
	require.ErrorContains(t, err, "1 of the 1 documents")
	require.Len(t, store.IDs(), 1)
}

func TestWhatWasStoredUnderAnotherConfigurationIsNoReasonToAsk(t *testing.T) {
	p, store := stocked(t, 100)
	store.Reconfigure()
	for i := range 90 {
		delete(p.things, fmt.Sprintf("t%03d", i))
	}
	quiet(t, store, p)
	require.NoError(t, p.differs(store))
}

func TestAListingThatDiedGoesOnAndRemovesWhatNoPartOfItHasShown(t *testing.T) {
	p, store := stocked(t, 20)
	p.stale = true
	delete(p.things, "t007")
	store.OnCheckpoint = func(n int) error {
		if n == store.Checkpoints() && p.listed == 2 && len(p.looks) == 0 {
			p.looks = append(p.looks, "died")
			return nil
		}
		if len(p.looks) == 1 {
			return errors.New("killed")
		}
		return nil
	}
	_, err := sync1(t.Context(), store, p, source.Options{})
	require.ErrorContains(t, err, "killed")
	p.looks = []string{"died", "goes on"}
	result := quiet(t, store, p)
	require.Less(t, result.Listed, 19)
	require.Equal(t, 1, result.Deleted)
	require.NoError(t, p.differs(store))
}

func TestWhatAListingKeepsMayDependOnWhatElseIsStored(t *testing.T) {
	_, store := stocked(t, 3)
	_, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
		s.BeginListing()
		if err := s.Item(ctx, source.Item{ID: "folder", Title: "A folder"}); err != nil {
			return nil, err
		}
		return cursor{}, s.EndListing(ctx, func(id string, _ source.Stored) bool {
			_, is := s.Stored("folder")
			return is && id != "t001"
		})
	}), source.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"folder", "t000", "t002"}, store.IDs())
}

func TestAReaderThatPanicsFailsItsItemAlone(t *testing.T) {
	p, store := stocked(t, 3)
	broken := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		err := s.Item(ctx, source.Item{ID: "bomb", Version: "1", Read: func(context.Context) (source.Content, error) { panic("boom") }})
		return cursor{}, err
	})
	result, err := sync1(t.Context(), store, broken, source.Options{})
	require.NoError(t, err)
	require.Equal(t, 1, result.Failed)
	require.Contains(t, store.Docs()["bomb"].Err, "boom")
	_ = p
}

func TestAnErrorOfReadingEndsTheSync(t *testing.T) {
	store := workertest.New()
	account := errors.New("the account is locked")
	_, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
		for i := range 100 {
			err := s.Item(ctx, source.Item{ID: fmt.Sprint(i), Read: func(context.Context) (source.Content, error) { return source.Content{}, account }})
			if err != nil {
				return nil, err
			}
		}
		return cursor{}, s.Checkpoint(ctx, cursor{})
	}), source.Options{})
	require.ErrorIs(t, err, account)
}

func TestManyItemsInARowThatCannotBeReadHaveThePlaceAsked(t *testing.T) {
	away := errors.New("no route to it")
	of := func(ctx context.Context, s *source.Sync) (any, error) {
		for i := range 50 {
			err := s.Item(ctx, source.Item{ID: fmt.Sprint(i), Version: "1", Read: func(context.Context) (source.Content, error) {
				return source.Content{}, &source.Unreadable{Reason: "the connection broke off", Trouble: true}
			}})
			if err != nil {
				return nil, err
			}
		}
		return cursor{}, nil
	}
	_, err := sync1(t.Context(), workertest.New(), lister(of), source.Options{Answers: func(context.Context) error { return away }})
	require.ErrorIs(t, err, away)
	require.ErrorContains(t, err, "20 items in a row")
	store := workertest.New()
	result, err := sync1(t.Context(), store, lister(of), source.Options{Answers: func(context.Context) error { return nil }})
	require.NoError(t, err)
	require.Equal(t, 50, result.Failed)
}

func TestAnItemThatHasGrownIsReadWithRoomForItsSize(t *testing.T) {
	store, sizes := workertest.New(), &rooms{}
	reads := 0
	_, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
		return cursor{}, s.Item(ctx, source.Item{ID: "log", Version: "1", Bytes: 10, Read: func(context.Context) (source.Content, error) {
			if reads++; reads == 1 {
				return source.Content{}, &source.Grown{Bytes: 1000}
			}
			return source.Content{Hash: "h"}, nil
		}})
	}), source.Options{Room: sizes})
	require.NoError(t, err)
	require.Equal(t, []int64{10, 1000}, sizes.asked)
	require.Zero(t, sizes.inside)
	require.Empty(t, store.Docs()["log"].Err)
}

func TestMoreItemsThanThereMayBeFailForGood(t *testing.T) {
	p, store := newPlace(), workertest.New()
	for i := range 12 {
		p.write(fmt.Sprintf("t%03d", i), "text")
	}
	tooMany := errors.New("max_files: there are more than 10")
	_, err := sync1(t.Context(), store, p, source.Options{MaxItems: 10, TooMany: tooMany})
	require.ErrorIs(t, err, tooMany)
	require.ErrorIs(t, err, worker.ErrPermanent)
}

func TestAFailureThatChangesItsPlaceHasItsMemoStored(t *testing.T) {
	p, store := stocked(t, 3)
	p.set("t001", func(t *thing) { t.version = p.next(); t.damaged, t.content = "binary", true })
	quiet(t, store, p)
	p.set("t001", func(t *thing) { t.folder = "moved" })
	quiet(t, store, p)
	require.Equal(t, `{"folder":"moved"}`, string(store.Docs()["t001"].Memo))
}

func TestAnItemWithoutContentIsNoDocumentThatCounts(t *testing.T) {
	store := workertest.New()
	of := lister(func(ctx context.Context, s *source.Sync) (any, error) {
		return cursor{}, s.Item(ctx, source.Item{ID: "folder", Title: "A folder", Memo: "above"})
	})
	for range 2 {
		result, err := sync1(t.Context(), store, of, source.Options{})
		require.NoError(t, err)
		require.Equal(t, source.Result{}, result)
	}
	require.Equal(t, []string{"put folder"}, store.Ops())
}

func TestAnItemIsNotRemovedWhileItIsRead(t *testing.T) {
	store := workertest.New()
	reading := make(chan struct{})
	_, err := sync1(t.Context(), store, lister(func(ctx context.Context, s *source.Sync) (any, error) {
		err := s.Item(ctx, source.Item{ID: "a", Read: func(context.Context) (source.Content, error) {
			close(reading)
			return source.Content{Hash: "h"}, nil
		}})
		if err != nil {
			return nil, err
		}
		<-reading
		return cursor{}, s.Remove(ctx, "a")
	}), source.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"delete a", "put a"}, store.Ops())
	require.Empty(t, store.IDs())
}

type lister func(ctx context.Context, s *source.Sync) (any, error)

func (l lister) List(ctx context.Context, s *source.Sync) (any, error) { return l(ctx, s) }

type rooms struct {
	asked  []int64
	inside int
}

func (r *rooms) Reserve(_ context.Context, bytes int64) (source.Reservation, error) {
	r.asked, r.inside = append(r.asked, bytes), r.inside+1
	return r, nil
}
func (r *rooms) Resize(int64) {}
func (r *rooms) Release()     { r.inside-- }
