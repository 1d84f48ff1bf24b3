package teams_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/internal/fakegraph"
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
			skip := 0
			if stored {
				w.sync()
				w.fake.Write(plan, "the new plan")
				skip = 1
			}
			w.fake.Inject(fakegraph.Fault{Path: "/download/", Times: 1, Status: 401, Code: "unauthenticated"},
				fakegraph.Fault{Path: "/items/" + plan, Skip: skip, Times: 1, Status: http.StatusNotFound, Code: "itemNotFound"})
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
	require.Equal(t, 160, strings.Count(strings.Join(w.sink.IDs(), " "), "guid-of"))
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
	for range 2 {
		r, err := w.try(t.Context())
		require.NoError(t, err)
		require.Zero(t, r.Deleted)
	}
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
func TestManyFilesComeBackWithTheirFolder(t *testing.T) {
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
	r := w.sync()
	require.Equal(t, 150, r.Threads, "all messages are listed once")
	require.Zero(t, w.sync().Threads)
}
