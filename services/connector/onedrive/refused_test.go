//go:build !race

// One thing after another for minutes: there is no race to find.

package onedrive_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

// full refuses everything, as the quota of an owner does who has no room left.
func full(worker.Document) bool { return true }

func TestWhatAFullQuotaRefusesInAListingOfSeveralRunsComesOnceThereIsRoom(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 5
	w.files(w.root, 20)
	w.sink.Refuses = full
	w.killedAt(3)
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Len(t, w.sink.Docs(), 20)
	w.sink.Refuses = nil
	w.sync()
}

func TestTheTextOfWhatAListingOfSeveralRunsRefusesStays(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 5
	ids := w.files(w.root, 20)
	w.sync()
	for _, id := range ids {
		w.fake.Write(id, "longer than there is room for")
	}
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	w.sink.Refuses = full
	w.killedAt(3)
	_, err := w.try(t.Context())
	require.NoError(t, err)
	for id, d := range w.sink.Docs() {
		require.NotEmpty(t, d.Chunks, id)
	}
	w.sink.Refuses = nil
	w.sync()
}

// What a folder that has gone held is known by where it was; of what was refused nothing is known.
func TestWhatWasRefusedBelowAFolderThatHasGoneGoesAtOnceThoughTheQuotaStaysFull(t *testing.T) {
	for name, goes := range map[string]func(w *world, folder string){
		"moved out": func(w *world, folder string) { w.fake.Move(folder, w.root) },
		"deleted":   func(w *world, folder string) { w.fake.Delete(folder) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.Business = true
			w.cfg.Item = w.fake.Folder(w.root, "Synced")
			top := w.fake.Folder(w.cfg.Item, "Top")
			stays := w.files(w.cfg.Item, 250)
			ids := append(w.files(top, 250), stays...)
			w.sync()
			for _, id := range ids {
				w.fake.Write(id, "new "+id)
			}
			w.sink.Refuses = full
			_, err := w.try(t.Context())
			require.NoError(t, err)
			goes(w, top)
			w.fake.Downloads()
			r, err := w.try(t.Context())
			require.NoError(t, err)
			require.ElementsMatch(t, stays, w.sink.IDs())
			require.LessOrEqual(t, r.Put, 200, "what is refused is not all read again")
			w.sink.Refuses = nil
			_, err = w.try(t.Context())
			require.NoError(t, err)
			w.sync()
		})
	}
}

// What may not be asked for any more may have moved to where others may not read it.
func TestTheOldTextOfWhatWasRefusedAndMayNotBeAskedForGoesUnlessAListingShowsIt(t *testing.T) {
	w := newWorld(t)
	w.fake.Business = true
	w.cfg.Item = w.fake.Folder(w.root, "top")
	sub, out := w.fake.Folder(w.cfg.Item, "sub"), w.fake.Folder(w.root, "out")
	moves, stays := w.fake.File(sub, "x.txt", "withdrawn later"), w.fake.File(w.cfg.Item, "y.txt", "not withdrawn")
	w.sync()
	w.sink.Refuses = full
	w.fake.Write(moves, "a longer text")
	w.fake.Write(stays, "another longer text")
	_, err := w.try(t.Context())
	require.NoError(t, err)
	w.sink.Refuses = nil
	w.fake.Forbid(moves, true)
	w.fake.Forbid(stays, true)
	w.fake.Move(sub, out)
	w.sync()
	require.Equal(t, []string{stays}, w.sink.IDs())
	w.fake.Requests()
	w.sync()
	lists := 0
	for _, path := range w.fake.Requests() {
		if strings.HasSuffix(path, "/delta") {
			lists++
		}
	}
	require.Equal(t, 1, lists, "nothing is listed again")
	w.fake.Forbid(stays, false)
	w.sync()
}

// Whether there is room again shows what the last sync tried.
func TestWhatWasRefusedComesInEverLargerSharesOnceThereIsRoom(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 2500)
	w.sink.Refuses = full
	_, err := w.try(t.Context())
	require.NoError(t, err)
	put := func() int {
		r, err := w.try(t.Context())
		require.NoError(t, err)
		return r.Put
	}
	require.Equal(t, []int{200, 200}, []int{put(), put()})
	w.sink.Refuses = nil
	require.Equal(t, []int{200, 800, 1500}, []int{put(), put(), put()})
	w.sync()
}

// Where many documents stand as they are, a listing of several runs does not begin anew with each.
func TestALongListingOfWhatIsStoredGoesOnFromItsLastPage(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 75
	w.files(w.root, 3000)
	w.sync()
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	w.killedAt(39)
	r := w.sync()
	require.LessOrEqual(t, r.Listed, 225)
	require.Zero(t, r.Deleted)
}

// asked counts the pages and the items that were asked for.
func (w *world) asked() (pages, items int) {
	for _, path := range w.fake.Requests() {
		if strings.HasSuffix(path, "/delta") {
			pages++
		} else if strings.Contains(path, "/items/") {
			items++
		}
	}
	return pages, items
}

func TestWhatWasRefusedAndMayNotBeAskedForIsLookedForInOneListing(t *testing.T) {
	w := newWorld(t)
	w.fake.Business = true
	w.fake.PageSize = 100
	ids := w.files(w.root, 1000)
	w.sink.Refuses = full
	_, err := w.try(t.Context())
	require.NoError(t, err)
	for _, id := range ids[:500] {
		w.fake.Forbid(id, true)
	}
	w.fake.Requests()
	lists := 0
	for range 12 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
		pages, items := w.asked()
		if pages > 2 {
			lists++
		}
		require.LessOrEqual(t, items, 1000)
	}
	require.Equal(t, 1, lists)
	w.sink.Refuses = nil
	for n := 0; w.differs() != ""; n++ {
		require.Less(t, n, 40)
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
}

func TestAFullQuotaDoesNotListEverythingForEachFileThatGoes(t *testing.T) {
	w := newWorld(t)
	w.fake.Business = true
	w.fake.PageSize = 100
	ids := w.files(w.root, 1000)
	w.sink.Refuses = full
	_, err := w.try(t.Context())
	require.NoError(t, err)
	w.fake.Requests()
	lists := 0
	for n := range 12 {
		w.fake.Delete(ids[n])
		w.fake.Delete(w.fake.File(w.root, "short-lived.txt", "x"))
		_, err := w.try(t.Context())
		require.NoError(t, err)
		require.Len(t, w.sink.IDs(), 999-n)
		pages, items := w.asked()
		if pages > 2 {
			lists++
		}
		require.LessOrEqual(t, items, 1000)
	}
	require.Zero(t, lists, "it is known where they are")
	w.sink.Refuses = nil
	for range 4 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	w.sync()
}
