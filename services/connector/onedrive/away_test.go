package onedrive_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/fakegraph"
)

// heals has the faults end, and tells what differs from the drive after two more syncs.
func (w *world) heals(t *testing.T) string {
	w.fake.Heal()
	for range 2 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	return w.differs()
}

func TestAFolderThatCannotBeAskedForFailsItsFilesAlone(t *testing.T) {
	for _, status := range []int{400, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := newWorld(t)
			w.files(w.root, 2)
			dir := w.fake.Folder(w.root, "dir")
			w.sync()
			late := w.fake.File(dir, "late.txt", "late words")
			w.fake.Inject(fakegraph.Fault{Path: "/items/" + dir, Times: 1 << 20, Status: status, Code: "generalException"})
			for n := range 3 {
				fresh := w.fake.File(w.root, fmt.Sprint("new", n, ".txt"), "new")
				_, err := w.try(t.Context())
				require.NoError(t, err)
				require.Contains(t, w.sink.IDs(), fresh)
				require.NotEmpty(t, w.sink.Docs()[late].Err)
			}
			require.Empty(t, w.heals(t))
		})
	}
}

func TestAFileWhoseFolderIsNotThereForAMomentIsStored(t *testing.T) {
	for _, status := range []int{403, 404} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := newWorld(t)
			dir := w.fake.Folder(w.root, "dir")
			w.sync()
			w.fake.File(dir, "late.txt", "late words")
			w.fake.Inject(fakegraph.Fault{Path: "/items/" + dir, Times: 1, Status: status, Code: "accessDenied"})
			_, err := w.try(t.Context())
			require.NoError(t, err)
			require.Empty(t, w.heals(t))
		})
	}
}

// So deep that not all folders above are remembered.
func TestADeepFileStaysWhenAFolderAboveItIsNotThereForAMoment(t *testing.T) {
	for _, status := range []int{403, 404, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := newWorld(t)
			for range 900 { // so that the ids are long
				w.fake.Folder(w.root, "beside")
			}
			at, first := w.root, ""
			for i := range 395 {
				at = w.fake.Folder(at, fmt.Sprint("deep", i))
				if i == 0 {
					first = at
				}
			}
			w.files(at, 3)
			other := w.fake.Folder(w.root, "other")
			w.files(other, 1)
			w.sync()
			w.fake.Delete(other)
			w.fake.Inject(fakegraph.Fault{Path: "/items/" + first, Times: 1, Status: status, Code: "accessDenied"})
			_, err := w.try(t.Context())
			require.NoError(t, err)
			require.Zero(t, w.fake.Heal(), "it was asked for")
			require.Len(t, w.sink.IDs(), 3)
			require.Empty(t, w.heals(t))
		})
	}
}

func TestAFileIsDeletedOnceTwoSyncsDoNotFindIt(t *testing.T) {
	w := newWorld(t)
	f := w.files(w.root, 2)[0]
	w.sync()
	w.fake.Write(f, "new words")
	notThere := fakegraph.Fault{Path: "/items/" + f, Times: 1, Status: http.StatusNotFound, Code: "itemNotFound"}
	w.fake.Inject(fakegraph.Fault{Path: "/download/" + f, Times: 1, Status: 401}, notThere)
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Contains(t, w.sink.IDs(), f)
	w.fake.Inject(notThere)
	_, err = w.try(t.Context())
	require.NoError(t, err)
	require.NotContains(t, w.sink.IDs(), f)
}

func TestAFileThatIsNotThereForAMomentIsReadAgain(t *testing.T) {
	for name, faults := range map[string][]fakegraph.Fault{
		"once its download is refused": {{Path: "/download/", Times: 1, Status: 401}},
		"once it has failed":           {{Path: "/download/", Times: 24, Status: 500}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := w.files(w.root, 2)[0]
			w.sync()
			w.fake.Write(f, "new words")
			w.fake.Inject(append(faults, fakegraph.Fault{Path: "/items/" + f, Times: 1, Status: http.StatusNotFound, Code: "itemNotFound"})...)
			for range 2 {
				_, err := w.try(t.Context())
				require.NoError(t, err)
				require.Contains(t, w.sink.IDs(), f)
			}
			require.Empty(t, w.heals(t))
		})
	}
}

func TestAFolderThatCannotBeListedForAMomentIsListedByTheNextSync(t *testing.T) {
	for _, status := range []int{403, 404, 423, 500} {
		t.Run(fmt.Sprint("comes, ", status), func(t *testing.T) {
			w := newWorld(t)
			in, out := w.fake.Folder(w.root, "in"), w.fake.Folder(w.root, "out")
			w.cfg.Item = in
			w.files(in, 2)
			top := w.fake.Folder(out, "top")
			w.files(top, 3)
			w.sync()
			w.fake.Move(top, in)
			w.fake.Inject(fakegraph.Fault{Path: "/items/" + top + "/children", Times: 1, Status: status, Code: "accessDenied"})
			_, err := w.try(t.Context())
			require.NoError(t, err)
			require.Empty(t, w.heals(t))
		})
		t.Run(fmt.Sprint("is renamed, ", status), func(t *testing.T) {
			w := newWorld(t)
			top := w.fake.Folder(w.root, "top")
			w.files(top, 3)
			w.sync()
			w.fake.Rename(top, "renamed")
			w.fake.Inject(fakegraph.Fault{Path: "/items/" + top + "/children", Times: 1, Status: status, Code: "accessDenied"})
			_, err := w.try(t.Context())
			require.NoError(t, err)
			require.Empty(t, w.heals(t))
		})
	}
}

func TestHoweverManyFoldersCannotBeListedTheSyncGoesOnAndWhatIsInThemComes(t *testing.T) {
	w := newWorld(t)
	w.cfg.Item = w.fake.Folder(w.root, "synced")
	out := w.fake.Folder(w.root, "out")
	var tops []string
	for i := range 60 {
		top := w.fake.Folder(out, fmt.Sprint("top ", i))
		w.files(top, 1)
		tops = append(tops, top)
	}
	w.files(w.cfg.Item, 1)
	w.sync()
	for _, top := range tops {
		w.fake.Move(top, w.cfg.Item)
	}
	w.fake.Inject(fakegraph.Fault{Path: "/children", Times: 1 << 20, Status: 423, Code: "resourceLocked"})
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Len(t, w.sink.IDs(), 1)
	w.sync() // everything is listed, without listing folders
	w.sync()
	w.fake.Requests()
	w.sync()
	require.Len(t, w.fake.Requests(), 2, "nothing is listed any more")
}

func TestADriveOrFolderThatIsAwayIsLookedForAgainOnceItWasSynced(t *testing.T) {
	for name, path := range map[string]string{"folder": "/items/", "changes": "/delta"} {
		for _, status := range []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable} {
			if path == "/delta" && status == http.StatusGone {
				continue // this says that the token is useless
			}
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				w := newWorld(t)
				w.cfg.Item = w.fake.Folder(w.root, "synced")
				w.files(w.cfg.Item, 3)
				away := fakegraph.Fault{Path: path, Times: 1 << 20, Status: status, Code: "itemNotFound"}
				if status == http.StatusNotFound {
					w.fake.Inject(away)
					_, err := w.try(t.Context())
					require.ErrorIs(t, err, worker.ErrPermanent, "it was never there")
					w.fake.Heal()
				}
				w.sync()
				w.fake.Inject(away)
				_, err := w.try(t.Context())
				require.Error(t, err)
				require.NotErrorIs(t, err, worker.ErrPermanent)
				if status == http.StatusNotFound {
					require.ErrorContains(t, err, "was synced before, and is not there now")
				}
				w.fake.Heal()
				w.sync()
				require.Len(t, w.sink.IDs(), 3)
			})
		}
	}
}

func TestAFolderThatIsDeletedKeepsWhatWasStoredOfIt(t *testing.T) {
	w := newWorld(t)
	w.cfg.Item = w.fake.Folder(w.root, "synced")
	w.files(w.cfg.Item, 3)
	w.sync()
	w.fake.Delete(w.cfg.Item)
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "the connector's folder was synced before, and is not there now")
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.Len(t, w.sink.IDs(), 3)
}
