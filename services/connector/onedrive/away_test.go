package onedrive_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/internal/fakegraph"
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
			at, first := w.root, ""
			for i := range 380 {
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
