//go:build !race

// One thing after another for minutes: there is no race to find.

package teams_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

func full(worker.Document) bool { return true }

// fullForFiles has no room for the text of files. What has no text is stored all the same.
func fullForFiles(d worker.Document) bool {
	return strings.Contains(d.SourceID, "/guid") && len(d.Chunks) > 0
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
	w.store.Refuses = full
	w.killedAt(3)
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Len(t, w.docs(), 20)
	w.store.Refuses = nil
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
	w.store.Refuses = full
	w.killedAt(3)
	_, err := w.try(t.Context())
	require.NoError(t, err)
	for id, d := range w.docs() {
		require.NotEmpty(t, d.Chunks, id)
	}
	w.store.Refuses = nil
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

func TestAnAttachmentWhoseDeletionWasGivenUpGoesAfterItsThread(t *testing.T) {
	w := newWorld(t)
	file := w.fake.File(w.folder, "plan.txt", "the withdrawn plan")
	root := w.say("", "Ann", "look", file)
	w.say("", "Bob", "something else")
	w.sync()
	w.store.GivesUp = func(id string) bool { return strings.Contains(id, "/guid") }
	w.fake.Remove(channelID, root)
	w.fake.Delete(file)
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Len(t, w.ids(), 2)
	w.store.GivesUp = nil
	w.sync()
}

// Whether there is room again shows what the last sync tried.
func TestWhatWasRefusedComesInEverLargerSharesOnceThereIsRoom(t *testing.T) {
	w := newWorld(t)
	w.saidLongAgo(1200)
	w.store.Refuses = full
	_, err := w.try(t.Context())
	require.NoError(t, err)
	w.fake.Pass(60 * 24 * time.Hour)
	put := func() int {
		r, err := w.try(t.Context())
		require.NoError(t, err)
		return r.Put
	}
	require.Equal(t, []int{100, 100}, []int{put(), put()})
	w.store.Refuses = nil
	require.Equal(t, []int{100, 400, 700, 0}, []int{put(), put(), put(), put()})
	w.sync()
}

// Of an attachment that was refused nothing is remembered, not even which file of the library it is.
func TestRefusedAttachmentsThatAreDeletedFromTheLibraryGoAtOnceThoughTheQuotaStaysFull(t *testing.T) {
	w := newWorld(t)
	var files []string
	for i := range 130 {
		files = append(files, w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), fmt.Sprint("old words ", i)))
		w.say("", "Ann", fmt.Sprint("word", i), files[i])
	}
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	for i, id := range files {
		w.fake.Write(id, fmt.Sprint("longer words of a file ", i))
	}
	w.store.Refuses = fullForFiles
	_, err := w.try(t.Context())
	require.NoError(t, err)
	for _, id := range files[:20] {
		w.fake.Delete(id)
	}
	_, err = w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, 130+110, len(w.ids()))
	w.store.Refuses = nil
	_, err = w.try(t.Context())
	require.NoError(t, err)
	w.sync()
}

// Which file of the library an attachment is is remembered once it was looked for.
func TestAFullQuotaLooksForRefusedAttachmentsOnceHoweverManyFilesAreDeleted(t *testing.T) {
	w := newWorld(t)
	for i := range 400 {
		w.say("", "Ann", fmt.Sprint("word", i), w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), fmt.Sprint("old words ", i)))
	}
	w.fake.Pass(60 * 24 * time.Hour)
	w.store.Refuses = fullForFiles
	for range 2 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	for n := range 4 {
		w.fake.Delete(w.fake.File(w.folder, "unrelated.txt", "x"))
		w.fake.Requests()
		w.fake.Downloads()
		_, err := w.try(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, len(w.fake.Downloads()), 100)
		if n > 0 {
			require.LessOrEqual(t, len(w.fake.Requests()), 710)
		}
	}
	w.store.Refuses = nil
	for range 4 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	w.sync()
}

func TestTheFileOfAReplyIsStoredThoughTheSyncThatFindsItDies(t *testing.T) {
	w := newWorld(t)
	w.fake.RepliesHidden = true
	root := w.say("", "Ann", "one")
	w.sync()
	w.say(root, "Bob", "look", w.fake.File(w.folder, "plan.txt", "the plan"))
	w.store.OnPut = func(d worker.Document) error {
		if strings.Contains(d.SourceID, "/guid") {
			return errors.New("killed")
		}
		return nil
	}
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "killed")
	w.store.OnPut = nil
	w.sync()
}

func TestRepliesThatAreTooMuchForAPageAreAskedForThreadByThread(t *testing.T) {
	w := newWorld(t)
	long := strings.TrimSpace(strings.Repeat("long ", 10<<10))
	for thread := range 2 {
		root := w.say("", "Ann", fmt.Sprint("root", thread))
		for i := range 110 {
			w.say(root, "Bob", fmt.Sprint("reply", i, ". ", long))
		}
	}
	_, err := w.try(t.Context())
	require.NoError(t, err)
	docs := w.docs()
	require.Len(t, docs, 2)
	for id, d := range docs {
		text := workertest.Text(d)
		for i := range 110 {
			require.True(t, strings.Contains(text, fmt.Sprintf("reply%d.", i)), "%s %d", id, i)
		}
	}
	var replies int
	for _, path := range w.fake.Requests() {
		if strings.HasSuffix(path, "/replies") {
			replies++
		}
	}
	require.Positive(t, replies)
}
