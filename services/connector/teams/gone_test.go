package teams_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/testonly/fakegraph"
)

// The thread of a file that comes back does not change.
func TestAnAttachedFileThatComesBackIsStoredAgain(t *testing.T) {
	for _, n := range []int{1, 250} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			var files []string
			for i := range n {
				files = append(files, w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), fmt.Sprint("words ", i)))
				w.say("", "Ann", fmt.Sprint("word", i), files[i])
			}
			w.sync()
			w.fake.Pass(60 * 24 * time.Hour)
			for range 2 {
				for _, id := range files {
					w.fake.Revoke(id, true)
				}
				require.Equal(t, n, w.sync().Deleted)
				w.sync()
				for _, id := range files {
					w.fake.Revoke(id, false)
				}
				require.Equal(t, n, w.sync().Put)
			}
			w.fake.Requests()
			w.sync()
			require.Len(t, w.fake.Requests(), 2, "nothing is looked for any more")
		})
	}
}

func TestAFileThatIsGoneForGoodCostsNothing(t *testing.T) {
	w := newWorld(t)
	file := w.fake.File(w.folder, "plan.txt", "the plan")
	w.say("", "Ann", "look", file)
	w.sync()
	w.fake.Pass(60 * 24 * time.Hour)
	w.fake.Delete(file)
	w.sync()
	for n := range 3 {
		w.fake.File(w.folder, fmt.Sprintf("new%d.txt", n), "new")
		w.fake.Requests()
		w.sync()
		require.Len(t, w.fake.Requests(), 2)
	}
}

// refused posts threads with a file each. The files are edited, and may not be downloaded for one sync: their earlier texts are found.
func (w *world) refused(n int) (files []string) {
	for i := range n {
		files = append(files, w.fake.File(w.folder, fmt.Sprint(i, ".txt"), fmt.Sprint("words ", i)))
		w.say("", "Ann", fmt.Sprint("word", i), files[i])
	}
	w.sync()
	for _, f := range files {
		w.fake.Write(f, "edited "+f)
	}
	w.fake.Inject(fakegraph.Fault{Path: "/download/", Times: 1 << 30, Status: http.StatusForbidden, Code: "accessDenied"})
	w.tries(1)
	w.fake.Heal()
	require.Equal(w.t, n, w.texts())
	return files
}

// vanish has files not be there when they are read, until Heal. Their links still lead to them.
func (w *world) vanish(files ...string) {
	w.fake.Inject(fakegraph.Fault{Path: "/download/", Times: 1 << 30, Status: http.StatusUnauthorized, Code: "unauthenticated"})
	for _, f := range files {
		w.fake.Inject(fakegraph.Fault{Path: "/items/" + f, Times: 1 << 30, Status: http.StatusNotFound, Code: "itemNotFound"})
	}
}

// linksLeadNowhere has all links lead nowhere, until Heal.
func (w *world) linksLeadNowhere() {
	w.fake.Inject(fakegraph.Fault{Path: "/shares/", Times: 1 << 30, Status: http.StatusNotFound, Code: "itemNotFound"})
}

func TestAttachmentsThatFailedKeepTheirTextsWhenTheyVanishForAMoment(t *testing.T) {
	w := newWorld(t)
	files := w.refused(40)
	w.vanish(files...)
	r, err := w.try(t.Context())
	require.NoError(t, err)
	require.Zero(t, r.Deleted)
	require.Equal(t, 40, w.texts())
	w.fake.Heal()
	w.comes(t)
}

func TestManyAttachmentsThatFailedAndVanishForTwoSyncsStay(t *testing.T) {
	w := newWorld(t)
	files := w.refused(40)
	w.vanish(files...)
	w.tries(1)
	w.linksLeadNowhere()
	_, err := w.try(t.Context())
	require.ErrorIs(t, err, source.ErrDeletionsRefused)
	require.Equal(t, 40, w.texts())
	w.fake.Heal()
	w.comes(t)
}

func TestAnAttachmentThatIsLostIsLookedForOnceMoreHoweverItWasMissing(t *testing.T) {
	for _, listed := range []bool{true, false} {
		t.Run(fmt.Sprint("its link led to it first: ", listed), func(t *testing.T) {
			w := newWorld(t)
			w.attached(30)
			plan := w.fake.File(w.folder, "plan.txt", "the plan")
			w.say("", "Ann", "look", plan)
			w.sync()
			w.fake.Write(plan, "the new plan")
			w.vanish(plan)
			if !listed {
				w.linksLeadNowhere()
			}
			w.tries(1)
			w.linksLeadNowhere()
			w.tries(1)
			require.Equal(t, 30, w.texts())
			w.fake.Heal()
			w.sync()
		})
	}
}

// No list says that anything is gone.
func TestLinksThatLeadNowhereAfterAChangeOfTheConfigurationBringTheirFilesBack(t *testing.T) {
	for syncs := 1; syncs <= 2; syncs++ {
		t.Run(fmt.Sprint("for ", syncs, " syncs"), func(t *testing.T) {
			w := newWorld(t)
			w.attached(40)
			w.sync()
			w.store.Reconfigure()
			w.linksLeadNowhere()
			w.tries(syncs)
			w.fake.Heal()
			w.sync()
		})
	}
}

func TestFilesThatVanishAfterAChangeOfTheConfigurationComeBack(t *testing.T) {
	w := newWorld(t)
	var files []string
	for i := range 40 {
		files = append(files, w.fake.File(w.folder, fmt.Sprint(i, ".txt"), fmt.Sprint("words ", i)))
		w.say("", "Ann", fmt.Sprint("word", i), files[i])
	}
	w.sync()
	w.store.Reconfigure()
	w.vanish(files...)
	w.tries(1)
	w.linksLeadNowhere()
	w.tries(1)
	w.fake.Heal()
	w.sync()
}
