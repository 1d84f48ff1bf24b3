package googledrive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

func TestFoldersThatOthersShareDoNotStopTheSyncOfASmallFolder(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "small")
	f.cfg = googledrive.Config{FolderID: top}
	f.opts.HeldBytes = 4 << 10
	f.sync()
	for i := range 200 {
		f.Folder("", fmt.Sprint(i))
	}
	f.File(top, "b.txt", "text/plain", "new in the small folder")
	f.sync()
	require.Equal(t, []string{"b.txt"}, f.store.files())
}

func TestFoldersThatOthersShareDoNotStopAFirstSyncOfMyDrive(t *testing.T) {
	f := newFixture(t)
	f.File(f.Folder(f.Folder(root, "Docs"), "Deep"), "a.txt", "text/plain", "a")
	for i := range 200 {
		f.Folder("", fmt.Sprint(i))
	}
	f.opts.HeldBytes = 4 << 10
	f.sync()
	require.Equal(t, []string{"a.txt"}, f.store.files())
	require.Len(t, f.store.Docs(), 3)
	require.Equal(t, 5, f.Calls("list"), "folders: one page of all, three levels; files: one page")
}

// Where there is room for all, a page of folders costs one request.
func TestFoldersThatAreHeldAreListedWithoutLevels(t *testing.T) {
	f := newFixture(t)
	f.File(f.Folder(f.Folder(root, "Docs"), "Deep"), "a.txt", "text/plain", "a")
	f.sync()
	require.Equal(t, 2, f.Calls("list"))
}

func TestAFolderThatComesWithWhatWasReportedBeforeItIsFound(t *testing.T) {
	f := newFixture(t)
	f.MaxPage = 1
	top := f.Folder(root, "Top")
	stored := f.Folder(top, "stored")
	f.File(stored, "stored.txt", "text/plain", "stored")
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	above := f.Folder("", "above")
	deep := f.Folder(f.Folder(above, "middle"), "deep")
	f.File(deep, "deep.txt", "text/plain", "deep")
	f.Move(stored, deep)
	f.Move(above, top)
	f.sync()
	require.Equal(t, []string{"deep.txt", "stored.txt"}, f.store.files())
	require.Len(t, f.store.Docs(), 4+2)
	require.Empty(t, f.store.deleted, "what is stored moves with its folder")
}

func TestMoreChangedFoldersThanAreHeldAreStored(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	var ids []string
	for i := range 50 {
		ids = append(ids, f.Folder(top, fmt.Sprint(i)))
		f.File(ids[i], fmt.Sprint(i, ".txt"), "text/plain", "words")
	}
	f.opts.HeldBytes = 2 << 10
	f.sync()
	require.Len(t, f.store.files(), 50)
	for i, id := range ids {
		f.Rename(id, fmt.Sprint("renamed ", i))
	}
	f.sync()
	require.Equal(t, "renamed 49", f.store.Docs()[ids[49]].Title)
	require.Len(t, f.store.Docs(), 100)
}

func TestShortcutsAreFollowedWhereFoldersAreNotHeld(t *testing.T) {
	f := newFixture(t)
	f.opts.HeldBytes = 1
	top := f.Folder(root, "Top")
	f.cfg = googledrive.Config{FolderID: top}
	var ids []string
	for i := range 5 {
		ids = append(ids, f.Shortcut(top, fmt.Sprint("s", i), f.File("", fmt.Sprint(i, ".txt"), "text/plain", fmt.Sprint("words ", i))))
	}
	f.sync()
	for i, id := range ids {
		require.Equal(t, fmt.Sprint("words ", i), f.store.text(id))
	}
}

func TestALongNameIsCutInAnItemThatIsAskedFor(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, strings.Repeat("n", 5000)+".txt", "text/plain", "a")
	f.Inject(fakedrive.Fault{Kind: "media", Status: 403, Reason: "forbidden", Times: 1})
	f.sync()
	require.Contains(t, f.store.text(a), "failed")
	f.sync() // asks for what had failed
	require.Equal(t, "a", f.store.text(a))
	require.Len(t, f.store.Docs()[a].Title, 1024)
}

func TestNoCheckpointPassesAFolderThatIsStillToBeListedOrRemoved(t *testing.T) {
	for _, in := range []bool{true, false} {
		f := newFixture(t)
		f.MaxPage = 1
		top := f.Folder(root, "Top")
		moving, from := f.Folder("", "moving"), ""
		if !in {
			f.Move(moving, top)
			from = moving
		}
		f.File(moving, "a.txt", "text/plain", "a")
		f.cfg = googledrive.Config{FolderID: top}
		f.sync()
		if in {
			f.Move(moving, top)
		} else {
			f.Move(from, "")
		}
		f.File(top, "b.txt", "text/plain", "b")
		f.store.kill = func(int) (bool, bool) { return false, true }
		_, err := f.try()
		f.store.kill = nil
		if err != nil {
			f.sync()
		}
		require.Equal(t, map[bool][]string{true: {"a.txt", "b.txt"}, false: {"b.txt"}}[in], f.store.files())
	}
}

func TestFoldersInEachOtherAreNotEndlessWhenTheyAreListedByLevels(t *testing.T) {
	f := newFixture(t)
	f.opts.HeldBytes = 1
	a := f.Folder(root, "a")
	b := f.Folder(a, "b")
	f.Move(a, root, b)
	f.File(b, "b.txt", "text/plain", "b")
	f.sync()
	require.Equal(t, []string{"b.txt"}, f.store.files())
}
