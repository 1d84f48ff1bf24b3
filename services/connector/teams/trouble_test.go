package teams_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/testonly/fakegraph"
)

// attached posts threads with a file each.
func (w *world) attached(n int) {
	for i := range n {
		file := w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), fmt.Sprint("words ", i))
		w.say("", "Ann", fmt.Sprint("word", i), file)
	}
}

// Where the channel's folder itself answers, files that cannot be read are at fault, however many there are.
func TestAttachmentsThatCannotBeReadFailAloneHoweverManyThereAre(t *testing.T) {
	w := newWorld(t)
	w.attached(20 + 5)
	w.fake.Inject(fakegraph.Broken.On("/download/", 1<<30))
	for range 2 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	w.fake.Heal()
	w.sync()
}

func TestALibraryThatIsAwayEndsTheSyncInsteadOfFailingEveryAttachment(t *testing.T) {
	w := newWorld(t)
	w.attached(20 + 5)
	afterTheChanges := fakegraph.Broken.On("/items/", 1<<30)
	afterTheChanges.Skip = 1
	w.fake.Inject(fakegraph.Broken.On("/download/", 1<<30), afterTheChanges)
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "20 items in a row")
	w.fake.Heal()
	w.sync()
}

// The next sync looks for another folder; what the channel says is read all the same.
func TestALibraryThatIsGoneMeanwhileFailsAttachmentsAndNotTheConnector(t *testing.T) {
	w := newWorld(t)
	w.attached(20 + 5)
	gone := fakegraph.Fault{Path: "/items/" + w.folder, Times: 1, Skip: 1, Status: http.StatusNotFound, Code: "itemNotFound"}
	w.fake.Inject(fakegraph.Broken.On("/download/", 1<<30), gone)
	_, err := w.try(t.Context())
	require.NoError(t, err)
	w.fake.Heal()
	w.sync()
}

// share is what the address of a file is asked for by.
func (w *world) share(file string) string {
	return "/shares/u!" + base64.RawURLEncoding.EncodeToString([]byte(w.fake.URL(file)))
}

func TestAnAttachmentThatCannotBeAskedForFailsAlone(t *testing.T) {
	for _, status := range []int{400, 409, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := newWorld(t)
			bad := w.fake.File(w.folder, "bad.txt", "bad")
			w.say("", "Ann", "one", bad)
			w.fake.Inject(fakegraph.Fault{Path: w.share(bad), Times: 1 << 30, Status: status, Code: "invalidRequest"})
			for n := range 3 {
				later := w.say("", "Bob", fmt.Sprint("later", n))
				_, err := w.try(t.Context())
				require.NoError(t, err)
				require.Contains(t, w.ids(), "message/"+later)
			}
			w.fake.Heal()
			w.sync()
		})
	}
}

func TestAThreadWhoseRepliesCannotBeReadFailsAlone(t *testing.T) {
	for _, status := range []int{403, 410, 500} {
		for name, hidden := range map[string]int{"asked for again": 1000, "more than are expanded": 1} {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				w := newWorld(t)
				w.fake.MaxReplies = hidden
				root := w.say("", "Ann", "one")
				w.sync()
				if hidden == 1 {
					w.say(root, "Bob", "two")
					w.say(root, "Bob", "three")
				}
				w.fake.Inject(fakegraph.Fault{Path: "/messages/" + root + "/replies", Times: 1 << 30, Status: status, Code: "generalException"})
				for n := range 3 {
					later := w.say("", "Bob", fmt.Sprint("later", n))
					r, err := w.try(t.Context())
					require.NoError(t, err)
					require.False(t, r.Restarted)
					require.Contains(t, w.ids(), "message/"+later)
					require.Contains(t, workertest.Text(w.docs()["message/"+root]), "one")
				}
				w.fake.Heal()
				w.sync()
			})
		}
	}
}

func TestAChangedFileThatCannotBeAskedForFailsAlone(t *testing.T) {
	w := newWorld(t)
	plan, other := w.fake.File(w.folder, "plan.txt", "the plan"), w.fake.File(w.folder, "other.txt", "other")
	a := w.say("", "Ann", "look", plan)
	b := w.say("", "Ann", "look too", other)
	w.sync()
	w.fake.Write(plan, "the new plan")
	w.fake.Inject(fakegraph.Broken.On("/items/"+plan, 1<<30), fakegraph.Broken.On(w.share(plan), 1<<30))
	for n := range 3 {
		words := fmt.Sprint("other ", n)
		w.fake.Write(other, words)
		_, err := w.try(t.Context())
		require.NoError(t, err)
		require.Equal(t, words, workertest.Text(w.docs()["message/"+b+"/guid-of-other.txt"]))
		require.Equal(t, "the plan", workertest.Text(w.docs()["message/"+a+"/guid-of-plan.txt"]))
	}
	w.fake.Heal()
	w.sync()
}

func TestAThreadThatIsNotThereForAMomentStays(t *testing.T) {
	w := newWorld(t)
	root, other := w.say("", "Ann", "one"), w.say("", "Ann", "two")
	w.sync()
	w.fake.Inject(fakegraph.Fault{Path: "/messages/" + root + "/replies", Times: 1, Status: http.StatusNotFound, Code: "NotFound"})
	r, err := w.try(t.Context())
	require.NoError(t, err)
	require.Zero(t, r.Deleted)
	require.Contains(t, workertest.Text(w.docs()["message/"+root]), "one")
	w.sync()
	w.fake.Inject(fakegraph.Fault{Path: "/messages/" + root + "/replies", Times: 2, Status: http.StatusNotFound, Code: "NotFound"})
	for range 2 {
		_, err = w.try(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, []string{"message/" + other}, w.ids())
}

func TestALibraryThatIsNotThereForAMomentTakesNothingWithIt(t *testing.T) {
	w := newWorld(t)
	root := w.say("", "Ann", "look", w.fake.File(w.folder, "plan.txt", "the plan"))
	w.sync()
	for times := range 4 {
		w.fake.Inject(fakegraph.Fault{Path: "/items/" + w.folder + "/delta", Times: times, Status: http.StatusNotFound, Code: "itemNotFound"})
		for range times {
			w.say(root, "Bob", "thanks")
			_, err := w.try(t.Context())
			require.NoError(t, err)
			require.Equal(t, "the plan", workertest.Text(w.docs()["message/"+root+"/guid-of-plan.txt"]))
		}
		w.say("", "Ann", "look too", w.fake.File(w.folder, fmt.Sprint(times, ".txt"), "other"))
		w.sync()
	}
}

func TestALibraryThatIsFoundLaterBringsTheFilesOfAllThreads(t *testing.T) {
	w := newWorld(t)
	w.say("", "Ann", "look", w.fake.File(w.folder, "plan.txt", "the plan"))
	w.fake.Pass(60 * 24 * time.Hour)
	w.fake.Inject(fakegraph.Fault{Path: "/filesFolder", Times: 1, Status: http.StatusNotFound, Code: "itemNotFound"})
	_, err := w.try(t.Context())
	require.NoError(t, err)
	w.sync()
}

// The account is asked for at each request; what says so of one link alone is the link's own.
func TestALinkThatTheAccountMayNotFollowFailsAlone(t *testing.T) {
	w := newWorld(t)
	bad := w.fake.File(w.folder, "bad.txt", "bad")
	w.say("", "Ann", "one", bad)
	w.fake.Inject(fakegraph.Fault{Path: w.share(bad), Times: 1 << 30, Status: http.StatusUnauthorized, Code: "accessDenied"})
	for range 2 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
		require.Len(t, w.ids(), 2)
	}
	w.fake.Heal()
	w.sync()
}

func TestALibraryThatIsAwayForLongBringsItsFilesBack(t *testing.T) {
	for _, n := range []int{1, 150} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			w.attached(n)
			w.fake.Pass(60 * 24 * time.Hour)
			w.sync()
			away := fakegraph.Fault{Times: 1 << 30, Status: http.StatusNotFound, Code: "itemNotFound"}
			for _, path := range []string{"/items/", "/filesFolder", "/shares/"} {
				away.Path = path
				w.fake.Inject(away)
			}
			w.tries(5)
			w.fake.Heal()
			w.tries(3)
			w.sync()
		})
	}
}

func TestAChannelThatWasThereAndIsNotIsLookedForAgain(t *testing.T) {
	w := newWorld(t)
	w.say("", "Ann", "one")
	w.sync()
	w.fake.Inject(fakegraph.Fault{Path: "/messages", Times: 1 << 30, Status: http.StatusNotFound, Code: "NotFound"})
	for range 2 {
		_, err := w.try(t.Context())
		require.ErrorContains(t, err, "the channel is not there now")
		require.NotErrorIs(t, err, worker.ErrPermanent)
		require.Len(t, w.ids(), 1)
	}
	w.fake.Heal()
	w.sync()
}

func TestAListingThatShowsNothingOfAChannelRemovesNothingUntilThatIsAllowed(t *testing.T) {
	w := newWorld(t)
	root := w.say("", "Ann", "look", w.fake.File(w.folder, "plan.txt", "the plan"))
	w.sync()
	w.fake.Remove(channelID, root)
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "--allow-deletions")
	require.Len(t, w.ids(), 2)
	w.store.Allows = true
	require.Equal(t, 2, w.sync().Deleted)
}
