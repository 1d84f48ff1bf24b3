package teams_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

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

// saidLongAgo posts threads that nobody asks for again by themselves.
func (w *world) saidLongAgo(n int) {
	for i := range n {
		w.say("", "Ann", fmt.Sprint("word", i))
	}
	w.fake.Pass(60 * 24 * time.Hour)
}

func TestWhatAFullQuotaRefusesInAListingOfSeveralRunsComesOnceThereIsRoom(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 5
	w.saidLongAgo(20)
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
	w.saidLongAgo(20)
	w.sync()
	for root := range w.fake.Threads(channelID) {
		w.fake.Edit(channelID, root, post(w, "Ann", "longer than there is room for"))
	}
	w.fake.Pass(60 * 24 * time.Hour)
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

// Where many threads stand as they are, a listing of several runs does not begin anew with each.
func TestALongListingOfWhatIsStoredGoesOnFromItsLastPage(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 50
	w.saidLongAgo(2000)
	w.sync()
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	w.killedAt(39)
	r := w.sync()
	require.LessOrEqual(t, r.Threads, 150)
	require.Zero(t, r.Deleted)
}
