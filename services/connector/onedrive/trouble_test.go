package onedrive_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/fakegraph"
)

// Where the drive itself answers, files that cannot be read are at fault, however many there are.
func TestFilesThatCannotBeReadFailAloneHoweverManyThereAre(t *testing.T) {
	for name, breaks := range map[string]func(w *world, id string){
		"shorter than listed": func(w *world, id string) { w.fake.Set(id, fakegraph.Shortened) },
		"answered with 500":   func(w *world, id string) { w.fake.Inject(fakegraph.Broken.On("/download/"+id, 1<<30)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i := range troubled + 5 {
				breaks(w, w.fake.File(w.root, fmt.Sprintf("a%03d.txt", i), "some text"))
			}
			w.files(w.root, 10)
			for n := range 3 {
				fresh := w.fake.File(w.root, fmt.Sprintf("new%d.txt", n), "new")
				_, err := w.try(t.Context())
				require.NoError(t, err)
				require.Contains(t, w.sink.IDs(), fresh)
				require.Len(t, failures(w.sink), troubled+5)
			}
		})
	}
}

func TestAFileThatFailsAsBeforeAsksTheServiceNothing(t *testing.T) {
	w := newWorld(t)
	for _, id := range w.files(w.root, 2*troubled) {
		w.fake.Set(id, fakegraph.Shortened)
	}
	_, err := w.try(t.Context())
	require.NoError(t, err)
	root := "/v1.0/drives/" + w.drive + "/items/" + w.root
	w.fake.Requests()
	_, err = w.try(t.Context())
	require.NoError(t, err)
	require.NotContains(t, w.fake.Requests(), root)
}

// The drive answers, so that nothing tells a host of downloads that is away from files that cannot be read. None of them is lost.
func TestWhatAHostOfDownloadsThatIsAwayHasFailedComesOnceItIsBack(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 100)
	w.fake.Inject(fakegraph.Broken.On("/download/", 1<<30))
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Len(t, failures(w.sink), 100)
	w.fake.Heal()
	require.Equal(t, 100, w.sync().Put)
}

// What a connection that breaks off says of itself names its ports.
func TestAFailureThatIsTheSameIsNotWrittenAgain(t *testing.T) {
	for name, fault := range map[string]fakegraph.Fault{"reset": fakegraph.Reset, "truncated": fakegraph.Truncated} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, id := range w.files(w.root, 10) {
				w.fake.Inject(fault.On("/download/"+id, 1<<30))
			}
			r, err := w.try(t.Context())
			require.NoError(t, err)
			require.Equal(t, 10, r.Failed)
			for range 2 {
				r, err = w.try(t.Context())
				require.NoError(t, err)
				require.Zero(t, r.Failed)
			}
		})
	}
}

func TestAFailedFileThatCannotBeAskedForFailsAlone(t *testing.T) {
	for _, status := range []int{400, 409, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := newWorld(t)
			bad := w.fake.File(w.root, "bad.txt", "bad")
			w.fake.Inject(fakegraph.Broken.On("/download/"+bad, 1<<30),
				fakegraph.Fault{Path: "/items/" + bad, Times: 1 << 30, Status: status, Code: "generalException"})
			for n := range 3 {
				fresh := w.fake.File(w.root, fmt.Sprintf("new%d.txt", n), "new")
				_, err := w.try(t.Context())
				require.NoError(t, err)
				require.Contains(t, w.sink.IDs(), fresh)
			}
			w.fake.Heal()
			w.sync()
		})
	}
}

func TestADriveThatIsAwayWhileFailedFilesAreTriedEndsTheSync(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 2*troubled)
	w.fake.Inject(fakegraph.Broken.On("/download/", 1<<30))
	_, err := w.try(t.Context())
	require.NoError(t, err)
	away := fakegraph.Broken.On("/items/", 1<<30)
	away.Skip = 1 // the delta
	w.fake.Inject(away)
	_, err = w.try(t.Context())
	require.ErrorContains(t, err, "20 items in a row")
	w.fake.Heal()
	w.sync()
}

func TestAFolderThatCannotBeListedFailsAloneAndIsListedOnceItCan(t *testing.T) {
	for _, status := range []int{400, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := newWorld(t)
			w.fake.PageSize = 5
			w.cfg.Item = w.fake.Folder(w.root, "synced")
			top, out := w.fake.Folder(w.cfg.Item, "top"), w.fake.Folder(w.root, "out")
			w.files(top, 3)
			w.files(out, 3)
			w.sync()
			w.fake.Rename(top, "renamed")
			w.fake.Move(out, w.cfg.Item)
			for _, id := range []string{top, out} {
				w.fake.Inject(fakegraph.Fault{Path: "/items/" + id + "/children", Times: 1 << 30, Status: status, Code: "generalException"})
			}
			for n := range 3 {
				fresh := w.fake.File(w.cfg.Item, fmt.Sprintf("new%d.txt", n), "new")
				_, err := w.try(t.Context())
				require.NoError(t, err)
				require.Contains(t, w.sink.IDs(), fresh)
			}
			w.fake.Heal()
			w.sync()
			w.fake.Requests()
			w.sync()
			require.Len(t, w.fake.Requests(), 2, "nothing is listed any more")
		})
	}
}
