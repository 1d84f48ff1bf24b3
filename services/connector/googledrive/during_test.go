package googledrive_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/googledrive"
)

func TestWhatChangesDuringAListingIsNotMissed(t *testing.T) {
	f := newFixture(t)
	f.MaxPage = 2
	early, late := f.Folder(root, "Early"), f.Folder(root, "Late")
	var ids []string
	for i := range 10 {
		ids = append(ids, f.File(early, fmt.Sprintf("%d.txt", i), "text/plain", "words"))
	}
	pages := 0
	f.Before(func(kind, _ string) {
		if kind != "list" {
			return
		}
		if pages++; pages == 4 {
			f.Delete(ids[0])
			f.Write(ids[1], "changed meanwhile")
			f.Move(ids[9], "nowhere")
			f.File(f.Folder(late, "New"), "new.txt", "text/plain", "new")
		}
	})
	f.sync()
	f.Before(nil)
	require.Equal(t, "(not stored)", f.store.text(ids[0]))
	require.Equal(t, "changed meanwhile", f.store.text(ids[1]))
	require.Contains(t, f.store.files(), "new.txt")
	require.Len(t, f.store.files(), 9)
}

func TestAFolderThatVanishesDuringAListingIsNoFailure(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	gone := f.Folder(top, "Gone")
	f.File(gone, "a.txt", "text/plain", "a")
	f.File(f.Folder(top, "Stays"), "b.txt", "text/plain", "b")
	f.cfg = googledrive.Config{FolderID: top}
	lists := 0
	f.Before(func(kind, _ string) {
		if kind == "list" {
			if lists++; lists == 3 { // the folders are known, the files are not
				f.Delete(gone)
			}
		}
	})
	f.sync()
	require.Equal(t, []string{"b.txt"}, f.store.files())
}

func TestAFileThatVanishesBeforeItIsReadGoesWithTheNextSync(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, "a.txt", "text/plain", "a")
	b := f.File(root, "b.txt", "text/plain", "b")
	c := f.File(root, "c.txt", "text/plain", "c")
	f.Before(func(kind, id string) {
		switch {
		case kind == "media" && id == a:
			f.Delete(a)
		case kind == "media" && id == b:
			f.Share(b, false)
		}
	})
	require.Equal(t, 2, f.sync().Failed, "they may come back")
	f.sync()
	require.Equal(t, []string{c}, f.store.IDs())
}

func TestAFileThatChangesWhileItIsReadIsReadAsItIsNow(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, "a.txt", "text/plain", "before")
	once := false
	f.Before(func(kind, id string) {
		if kind == "media" && !once {
			once = true
			f.Write(a, "after, and longer")
		}
	})
	f.sync()
	f.Before(nil)
	require.Equal(t, "after, and longer", f.store.text(a))
	r := f.again()
	require.Zero(t, r.Touched+r.Put)
}

// What a run sends is stored in any order: a touch that is stored before the content it keeps fails its document.
func TestAFileThatIsRenamedWhileItsRunListsItIsNotTouchedBehindItsContent(t *testing.T) {
	f := newFixture(t)
	f.MaxPage = 2
	top := f.Folder(root, "Top")
	var ids []string
	for i := range 10 {
		ids = append(ids, f.File(top, fmt.Sprintf("%d.txt", i), "text/plain", fmt.Sprintf("text %d", i)))
	}
	pages := 0
	f.Before(func(kind, _ string) {
		if kind == "list" {
			if pages++; pages == 5 {
				for _, id := range ids {
					f.Rename(id, "renamed "+id+".txt")
				}
			}
		}
	})
	f.sync()
	require.Empty(t, f.store.touched, "each is put again")
	for _, id := range ids {
		require.Equal(t, "renamed "+id+".txt", f.store.Docs()[id].Title)
	}
	f.Rename(ids[0], "again.txt")
	f.sync()
	require.Equal(t, []string{ids[0]}, f.store.touched, "a later run touches it")
}
