package onedrive_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

// full refuses everything, as the quota of an owner does who has no room left.
func full(worker.Document) bool { return true }

// killedAt ends a sync at its nth checkpoint from now on.
func (w *world) killedAt(n int) {
	w.t.Helper()
	at := w.sink.Checkpoints() + n
	w.sink.OnCheckpoint = func(n int) error {
		if n == at {
			return errors.New("killed")
		}
		return nil
	}
	_, err := w.try(w.t.Context())
	require.ErrorContains(w.t, err, "killed")
	w.sink.OnCheckpoint = nil
}

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
func TestWhatWasRefusedBelowAFolderThatHasGoneGoesWithinAFewSyncs(t *testing.T) {
	w := newWorld(t)
	top := w.fake.Folder(w.root, "Top")
	w.cfg.Item = w.fake.Folder(w.root, "Synced")
	w.fake.Move(top, w.cfg.Item)
	for _, id := range w.files(top, 250) {
		w.fake.Write(id, "old "+id)
	}
	w.sync()
	for id := range w.sink.Docs() {
		w.fake.Write(id, "new "+id)
	}
	w.sink.Refuses = full
	_, err := w.try(t.Context())
	require.NoError(t, err)
	w.fake.Move(top, w.root)
	for range 2 {
		_, err = w.try(t.Context())
		require.NoError(t, err)
	}
	require.Empty(t, w.sink.IDs())
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
