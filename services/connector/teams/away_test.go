package teams_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/testonly/fakegraph"
)

// comes syncs until a file that is there again must be stored.
func (w *world) comes(t *testing.T) {
	for range 3 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	require.Empty(t, w.differs())
}

func TestAFileThatIsUploadedAgainUnderItsNameIsStored(t *testing.T) {
	for _, between := range []bool{true, false} {
		t.Run(fmt.Sprint("a sync between: ", between), func(t *testing.T) {
			w := newWorld(t)
			plan := w.fake.File(w.folder, "plan.txt", "the plan")
			w.say("", "Ann", "look", plan)
			w.fake.Pass(60 * 24 * time.Hour)
			w.sync()
			w.fake.Delete(plan)
			if between {
				w.sync()
			}
			w.fake.File(w.folder, "plan.txt", "the second plan")
			w.comes(t)
			w.fake.Requests()
			w.sync()
			require.Len(t, w.fake.Requests(), 2, "nothing is looked for any more")
		})
	}
}

func TestAnAttachmentThatIsNotThereWhenItIsAskedForFirstIsStoredOnceItIs(t *testing.T) {
	t.Run("for a moment", func(t *testing.T) {
		w := newWorld(t)
		plan := w.fake.File(w.folder, "plan.txt", "the plan")
		w.say("", "Ann", "look", plan)
		w.fake.Pass(60 * 24 * time.Hour)
		w.fake.Inject(fakegraph.Fault{Path: w.share(plan), Times: 1, Status: http.StatusNotFound, Code: "itemNotFound"})
		_, err := w.try(t.Context())
		require.NoError(t, err)
		w.comes(t)
	})
	t.Run("for long", func(t *testing.T) {
		w := newWorld(t)
		plan := w.fake.File(w.folder, "plan.txt", "the plan")
		w.say("", "Ann", "look", plan)
		w.fake.Pass(60 * 24 * time.Hour)
		w.fake.Revoke(plan, true)
		w.sync()
		w.sync()
		w.fake.Requests()
		w.sync()
		require.Len(t, w.fake.Requests(), 2, "it is not looked for until something comes")
		w.fake.Revoke(plan, false)
		w.comes(t)
	})
}

func TestAFileThatVanishesForAMomentWhileItIsReadIsStored(t *testing.T) {
	for _, stored := range []bool{true, false} {
		t.Run(fmt.Sprint("stored: ", stored), func(t *testing.T) {
			w := newWorld(t)
			plan := w.fake.File(w.folder, "plan.txt", "the plan")
			w.say("", "Ann", "look", plan)
			w.fake.Pass(60 * 24 * time.Hour)
			if stored {
				w.sync()
				w.fake.Write(plan, "the new plan")
			}
			w.fake.Inject(fakegraph.Fault{Path: "/download/", Times: 1, Status: 401, Code: "unauthenticated"},
				fakegraph.Fault{Path: "/items/" + plan, Times: 1, Status: http.StatusNotFound, Code: "itemNotFound"})
			r, err := w.try(t.Context())
			require.NoError(t, err)
			require.Zero(t, r.Deleted)
			w.comes(t)
		})
	}
}

func TestManyFilesComeBackThatWentBitByBit(t *testing.T) {
	w := newWorld(t)
	var files []string
	for i := range 160 {
		files = append(files, w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), "words"))
		w.say("", "Ann", fmt.Sprint("word", i), files[i])
	}
	w.sync()
	for some := range slices.Chunk(files, 40) {
		for _, f := range some {
			w.fake.Revoke(f, true)
		}
		w.sync()
	}
	for _, f := range files {
		w.fake.Revoke(f, false)
	}
	w.comes(t)
	require.Equal(t, 160, strings.Count(strings.Join(w.ids(), " "), "guid-of"))
}

func TestWhatIsGoneForGoodIsLookedForOnceWhenAFolderComes(t *testing.T) {
	w := newWorld(t)
	var files []string
	for i := range 60 {
		files = append(files, w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), "words"))
		w.say("", "Ann", fmt.Sprint("word", i), files[i])
	}
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	for some := range slices.Chunk(files, 30) {
		for _, f := range some {
			w.fake.Delete(f)
		}
		w.sync()
	}
	w.fake.Folder(w.folder, "new and empty")
	w.sync()
	w.fake.Requests()
	w.sync()
	require.Len(t, w.fake.Requests(), 2)
}

func TestManyThreadsThatAreNotThereForTwoSyncsStay(t *testing.T) {
	w := newWorld(t)
	for i := range 60 {
		w.say("", "Ann", fmt.Sprint("word", i))
	}
	w.sync()
	w.fake.Inject(fakegraph.Fault{Path: "/replies", Times: 1 << 30, Status: http.StatusNotFound, Code: "NotFound"})
	_, err := w.try(t.Context())
	require.NoError(t, err)
	_, err = w.try(t.Context())
	require.ErrorIs(t, err, source.ErrDeletionsRefused)
	w.fake.Heal()
	w.sync()
}

// A deleted folder lists little, and what was in it is not listed.
func TestFilesGoWithTheFolderThatTheyWereIn(t *testing.T) {
	w := newWorld(t)
	w.fake.ReportBelow = false
	dir := w.fake.Folder(w.folder, "2025")
	for i := range 3 {
		w.say("", "Ann", fmt.Sprint("word", i), w.fake.File(dir, fmt.Sprintf("%03d.txt", i), "words"))
	}
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	w.fake.Delete(dir)
	w.comes(t)
}

// Only the folder is reported.
func TestManyFilesGoAndComeBackWithTheirFolder(t *testing.T) {
	w := newWorld(t)
	dir := w.fake.Folder(w.folder, "2025")
	for i := range 150 {
		w.say("", "Ann", fmt.Sprint("word", i), w.fake.File(dir, fmt.Sprintf("%03d.txt", i), "words"))
	}
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	for range 2 {
		w.fake.Move(dir, w.root)
		require.Equal(t, 150, w.sync().Deleted)
		w.fake.Requests()
		w.sync()
		require.Len(t, w.fake.Requests(), 2, "nothing is looked for")
		w.fake.Move(dir, w.folder)
		r := w.sync()
		require.Equal(t, 150, r.Put)
		require.Zero(t, r.Threads)
	}
}

func TestFilesThatAreGoneForGoodAreLookedForOnceWhenAFolderComes(t *testing.T) {
	w := newWorld(t)
	var files []string
	for i := range 150 {
		files = append(files, w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), "words"))
		w.say("", "Ann", fmt.Sprint("word", i), files[i])
	}
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	for _, f := range files {
		w.fake.Delete(f)
	}
	w.sync()
	w.fake.Folder(w.folder, "one that comes")
	w.fake.Requests()
	require.Zero(t, w.sync().Threads)
	require.LessOrEqual(t, len(w.fake.Requests()), 302)
	w.sync()
	require.Len(t, w.fake.Requests(), 2)
}

func TestAFileThatLeavesTheChannelsFolderIsNotStoredUntilItIsBack(t *testing.T) {
	w := newWorld(t)
	for n, away := range []string{w.root, w.fake.Folder(w.root, "Another channel")} {
		dir := w.fake.Folder(w.folder, fmt.Sprint("folder", n))
		plan, inFolder := w.fake.File(w.folder, fmt.Sprint(n, ".txt"), "the plan"), w.fake.File(dir, "below.txt", "another plan")
		w.say("", "Ann", "look", plan, inFolder)
		w.fake.Pass(60 * 24 * time.Hour)
		w.sync()
		w.fake.Move(plan, away)
		w.fake.Move(dir, away)
		require.Equal(t, 2, w.sync().Deleted)
		w.fake.Write(plan, "nobody in the channel may read this")
		w.sync()
		w.fake.Move(plan, w.folder)
		w.fake.Move(dir, w.folder)
		require.Equal(t, 2, w.sync().Put)
	}
}

func TestAnAttachmentIsTheFileThatItsLinkLeadsTo(t *testing.T) {
	w := newWorld(t)
	plan := w.fake.File(w.folder, "plan.txt", "the plan")
	id := "message/" + w.say("", "Ann", "look", plan) + "/guid-of-plan.txt"
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	w.fake.Rename(plan, "old plan.txt")
	require.Equal(t, 1, w.sync().Touched, "it was renamed")
	require.Equal(t, "old plan.txt", w.docs()[id].Title)
	other := w.fake.File(w.folder, "Plan.txt", "another plan")
	w.sync()
	require.Equal(t, "the plan", workertest.Text(w.docs()[id]), "of a name that is only much the same")
	w.fake.Rename(other, "plan.txt")
	w.sync()
	require.Equal(t, "another plan", workertest.Text(w.docs()[id]), "another file took its name")
	w.fake.Delete(other)
	require.Equal(t, 1, w.sync().Deleted)
	w.fake.Rename(plan, "plan.txt")
	require.Equal(t, 1, w.sync().Put)
}

func TestTheFilesOfAChannelWhoseFolderIsDeletedAreNotStored(t *testing.T) {
	w := newWorld(t)
	root := w.say("", "Ann", "look", w.fake.File(w.folder, "plan.txt", "the plan"))
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	w.fake.Delete(w.folder)
	for range 4 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, []string{"message/" + root}, w.ids())
}

func TestAMessageWhoseAttachmentGetsAnotherLinkHasTheFileBehindIt(t *testing.T) {
	w := newWorld(t)
	first, second := w.fake.File(w.folder, "first.txt", "first"), w.fake.File(w.folder, "second.txt", "second")
	say := func(file string) fakegraph.Post {
		return fakegraph.Post{Author: "Ann", HTML: "look", Files: map[string]string{"plan.txt": w.fake.URL(file)}}
	}
	root := w.fake.Say(channelID, "", say(first))
	w.sync()
	w.fake.Edit(channelID, root, say(second))
	w.sync()
	require.Equal(t, "second", workertest.Text(w.docs()["message/"+root+"/guid-of-plan.txt"]))
}

func TestALinkThatIsTooLongToBeRememberedIsNotFollowed(t *testing.T) {
	w := newWorld(t)
	w.fake.Say(channelID, "", fakegraph.Post{Author: "Ann", HTML: "look", Files: map[string]string{
		"plan.txt": w.fake.URL(w.folder) + "/" + strings.Repeat("&", 2000), "empty.txt": "",
	}})
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Len(t, w.store.IDs(), 1)
}

func TestFilesComeBackWithTheirLibraryThoughTheSyncThatFindsItDies(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 1
	w.attached(3)
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	for _, path := range []string{"/items/", "/filesFolder", "/shares/"} {
		w.fake.Inject(fakegraph.Fault{Path: path, Times: 1 << 30, Status: http.StatusNotFound, Code: "itemNotFound"})
	}
	for range 5 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	require.Len(t, w.ids(), 3, "its files are gone")
	w.fake.Heal()
	w.say("", "Ann", "more")
	w.say("", "Ann", "than a page")
	w.killedAt(1)
	w.sync()
	require.Len(t, w.ids(), 8)
}

// texts counts the attachments that have text.
func (w *world) texts() (n int) {
	for id, d := range w.store.Docs() {
		if strings.Contains(id, "/guid") && len(d.Chunks) > 0 {
			n++
		}
	}
	return n
}

func TestAChannelThatIsAwayAfterARefusedListingIsNoMistakeOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for i := range 60 {
		ids = append(ids, w.say("", "Ann", fmt.Sprint("word", i)))
	}
	_, err := w.try(t.Context())
	require.NoError(t, err)
	for _, id := range ids[:40] {
		w.fake.Remove(channelID, id)
	}
	w.fake.Pass(300 * 24 * time.Hour) // the delta does not tell
	w.fake.ExpireTokens("syncStateNotFound")
	_, err = w.try(t.Context())
	require.ErrorIs(t, err, source.ErrDeletionsRefused)
	w.fake.Inject(fakegraph.Fault{Path: "/messages", Times: 1, Status: http.StatusNotFound, Code: "NotFound"})
	_, err = w.try(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, worker.ErrPermanent)
}

func TestManyAttachmentsThatAreNotThereTakeNoTextAlongUnasked(t *testing.T) {
	w := newWorld(t)
	w.attached(100)
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	w.fake.Folder(w.folder, "a new folder") // so each is looked for
	for _, path := range []string{"/shares/", "/items/item"} {
		w.fake.Inject(fakegraph.Fault{Path: path, Times: 1 << 30, Status: http.StatusNotFound, Code: "itemNotFound"})
	}
	w.tries(4)
	require.Equal(t, 100, w.texts())
	w.fake.Heal()
	w.tries(2)
	w.sync()
}

func TestAttachmentsThatAreNotThereGoOnceTheirOwnerAllowsItForOneRun(t *testing.T) {
	w := newWorld(t)
	w.attached(100)
	w.fake.Pass(60 * 24 * time.Hour)
	w.sync()
	w.fake.Folder(w.folder, "a new folder") // so each is looked for
	for _, path := range []string{"/shares/", "/items/item"} {
		w.fake.Inject(fakegraph.Fault{Path: path, Times: 1 << 30, Status: http.StatusNotFound, Code: "itemNotFound"})
	}
	for range 12 {
		_, err := w.try(t.Context())
		if err == nil {
			w.store.Allows = false
		}
		if errors.Is(err, source.ErrDeletionsRefused) {
			w.store.Allows = true
		}
	}
	require.Zero(t, w.texts())
}

// A thread that is not there when it is asked for, and there when it is asked for once more in the same sync, loses its other attachments.
func TestAThreadThatIsThereAgainInTheSameSyncKeepsItsAttachments(t *testing.T) {
	w := newWorld(t)
	var files []string
	for _, name := range []string{"x.txt", "y.txt", "z.txt"} {
		files = append(files, w.fake.File(w.folder, name, "the words of "+name))
	}
	root := w.say("", "Ann", "look", files...)
	w.say("", "Bob", "other")
	w.fake.Pass(60 * 24 * time.Hour)
	w.store.Refuses = func(d worker.Document) bool { return strings.Contains(d.SourceID, "guid-of-x") && len(d.Chunks) > 0 }
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, w.texts())
	notThere := fakegraph.Fault{Path: "/messages/" + root + "/replies", Times: 50, Status: http.StatusNotFound, Code: "NotFound"}
	w.fake.Inject(notThere)
	_, err = w.try(t.Context()) // it is away
	require.NoError(t, err)
	w.fake.Heal()
	notThere.Times = 1
	w.fake.Inject(notThere)
	w.store.Refuses = nil       // there is room again
	_, err = w.try(t.Context()) // once more, and there right after
	require.NoError(t, err)
	require.Zero(t, w.fake.Heal())
	for range 10 {
		_, err = w.try(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 3, w.texts(), "x, y and z")
}

func TestAttachmentsOfLostThreadsGoNotUnasked(t *testing.T) {
	w := newWorld(t)
	var roots []string
	for i := range 15 {
		var files []string
		for k := range 10 {
			files = append(files, w.fake.File(w.folder, fmt.Sprintf("%d-%d.txt", i, k), "the words"))
		}
		roots = append(roots, w.say("", "Ann", fmt.Sprint("word", i), files...))
	}
	for i := range 5 {
		w.say("", "Bob", fmt.Sprint("other", i))
	}
	w.sync()
	for _, root := range roots {
		w.fake.Inject(fakegraph.Fault{Path: "/messages/" + root, Times: 1 << 30, Status: http.StatusNotFound, Code: "NotFound"})
	}
	w.tries(1)
	w.fake.Folder(w.folder, "a new folder") // so each attachment is looked for
	w.tries(1)
	w.fake.Heal()
	w.tries(1)
	require.GreaterOrEqual(t, len(w.ids()), 155, "150 attachments that are there, nobody was asked")
}

// A thread that is twice not there, and whose replies cannot be read when it is asked for once more in the same sync.
func TestAThreadThatFailsAfterItWasLostKeepsItsAttachments(t *testing.T) {
	w := newWorld(t)
	var files []string
	for _, name := range []string{"x.txt", "y.txt", "z.txt"} {
		files = append(files, w.fake.File(w.folder, name, "the words of "+name))
	}
	root := w.say("", "Ann", "look", files...)
	w.say("", "Bob", "other")
	w.fake.Pass(60 * 24 * time.Hour)
	w.store.Refuses = func(d worker.Document) bool { return strings.Contains(d.SourceID, "guid-of-x") && len(d.Chunks) > 0 }
	_, err := w.try(t.Context())
	require.NoError(t, err)
	notThere := fakegraph.Fault{Path: "/messages/" + root + "/replies", Times: 50, Status: http.StatusNotFound, Code: "NotFound"}
	for range 12 {
		w.fake.Heal()
		notThere.Times = 50
		w.fake.Inject(notThere)
		_, err = w.try(t.Context()) // it is away
		require.NoError(t, err)
		w.fake.Heal()
		notThere.Times = 1
		w.fake.Inject(notThere, fakegraph.Fault{Path: "/messages/" + root + "/replies", Times: 1 << 20, Status: 500, Code: "generalException"})
		_, err = w.try(t.Context())
		require.NoError(t, err)
		w.fake.Heal()
		has := 0
		for id, d := range w.store.Docs() {
			if strings.Contains(id, "guid-of-y") || strings.Contains(id, "guid-of-z") {
				if workertest.Text(d) != "" {
					has++
				}
			}
		}
		_, lives := w.store.Docs()["message/"+root]
		require.False(t, lives && has < 2, "the thread lives, its attachments do not")
		w.tries(2)
		if !lives {
			return
		}
	}
}
