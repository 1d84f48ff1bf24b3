package googledrive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

const root = fakedrive.Root

func TestAFirstSyncStoresAllOfMyDrive(t *testing.T) {
	f := newFixture(t)
	docs := f.Folder(root, "Docs")
	deep := f.Folder(docs, "Deep")
	a := f.File(root, "a.txt", "text/plain", "first words")
	b := f.File(docs, "b.md", "text/markdown", "# B\n\nmore")
	c := f.Doc(deep, "C", fakedrive.DocumentType, "# C\n\nwritten in a browser")
	f.File("", "shared with me.txt", "text/plain", "not below the root")
	r := f.sync()
	require.Equal(t, 3, r.Put)
	require.Equal(t, []string{"C", "a.txt", "b.md"}, f.store.files())
	require.Equal(t, "first words", f.store.text(a))
	require.Contains(t, f.store.text(c), "written in a browser")
	require.Equal(t, "text/markdown", f.store.Docs()[c].MediaType)
	require.Equal(t, "https://drive.example/file/d/"+b+"/view", f.store.Docs()[b].URL)
	require.Len(t, f.store.Docs(), 5, "folders are stored too")
	require.Empty(t, f.store.Docs()[docs].Chunks)
}

func TestAQuietSyncAsksOnce(t *testing.T) {
	f := newFixture(t)
	f.File(f.Folder(root, "Docs"), "a.txt", "text/plain", "words")
	f.sync()
	r := f.again()
	require.Equal(t, 1, f.Calls())
	require.Equal(t, googledrive.Result{Pages: 1, Calls: 1}, r)
}

func TestTenChangesCostOneCallAndTheirContents(t *testing.T) {
	f := newFixture(t)
	var ids []string
	docs := f.Folder(root, "Docs")
	for i := range 30 {
		ids = append(ids, f.File(docs, fmt.Sprintf("%d.txt", i), "text/plain", fmt.Sprint("words ", i)))
	}
	f.sync()
	for i := range 4 {
		f.Write(ids[i], fmt.Sprint("other words ", i))
	}
	f.Rename(ids[4], "new name.txt")
	f.Rename(ids[5], "another.txt")
	f.Trash(ids[6], true)
	f.Delete(ids[7])
	f.File(docs, "new.txt", "text/plain", "new")
	f.Move(ids[8], root)
	r := f.again()
	require.Equal(t, 1+5, f.Calls())
	require.Equal(t, 5, f.Calls("media"))
	require.Equal(t, googledrive.Result{Pages: 1, Calls: 6, Result: source.Result{Listed: 8, Put: 5, Touched: 3, Deleted: 2}}, r)
	require.Equal(t, "other words 3", f.store.text(ids[3]))
}

func TestARenameStoresNothingButTitleAndURL(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, "a.txt", "text/plain", "words")
	d := f.Doc(root, "Doc", fakedrive.DocumentType, "words of a doc")
	f.sync()
	f.Rename(a, "b.txt")
	f.Rename(d, "Other")
	r := f.again()
	require.Equal(t, 2, r.Touched)
	require.Equal(t, 1, f.Calls(), "no content is read")
	require.Empty(t, f.store.put)
	require.Equal(t, []string{"Other", "b.txt"}, f.store.files())
	require.Equal(t, "words", f.store.text(a))
}

func TestAnotherExtensionIsReadAnew(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, "a.txt", "text/plain", "a,b\n1,2\n3,4\n")
	f.sync()
	f.Rename(a, "a.csv")
	f.again()
	require.Equal(t, 1, f.Reads(a), "what it is read as depends on its name")
}

func TestMetadataThatNobodyLooksAtStoresNothing(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, "a.txt", "text/plain", "words")
	d := f.Doc(root, "Doc", fakedrive.DocumentType, "words of a doc")
	f.sync()
	f.Star(a)
	f.Star(d)
	r := f.again()
	require.Equal(t, 2, r.Unchanged)
	require.Empty(t, append(f.store.put, f.store.touched...))
	require.Equal(t, 1, f.Calls())
}

func TestGooglesDocumentsAreExported(t *testing.T) {
	f := newFixture(t)
	doc := f.Doc(root, "D", fakedrive.DocumentType, "# Title\n\nof a doc")
	sheet := f.Doc(root, "S", fakedrive.SheetType, "name,age\nAda,36\nAlan,41\n")
	slides := f.Doc(root, "P", fakedrive.SlidesType, "words of slides")
	drawing := f.Doc(root, "X", fakedrive.DrawingType, "png")
	big := f.Doc(root, "Big", fakedrive.DocumentType, strings.Repeat("0123456789", 1<<20)+"!")
	f.sync()
	require.Contains(t, f.store.text(doc), "of a doc")
	require.Contains(t, f.store.text(sheet), "Ada")
	require.Equal(t, "text/csv", f.store.Docs()[sheet].MediaType)
	require.Equal(t, "words of slides", f.store.text(slides))
	require.Contains(t, f.store.text(drawing), "drawing holds no text")
	require.Contains(t, f.store.text(big), "up to 10 MB (exportSizeLimitExceeded)")
	f.again()
	require.Equal(t, 1, f.Calls(), "what lies in the content is not tried again")
	f.Write(big, "short now")
	f.again()
	require.Equal(t, "short now", f.store.text(big))
}

func TestTrashAndDeletionRemoveTheDocument(t *testing.T) {
	for _, reportBelow := range []bool{false, true} {
		t.Run(fmt.Sprint("reported below=", reportBelow), func(t *testing.T) {
			f := newFixture(t)
			f.ReportBelow = reportBelow
			one, two, three := f.Folder(root, "One"), f.Folder(root, "Two"), f.Folder(root, "Three")
			a := f.File(f.Folder(one, "Sub"), "a.txt", "text/plain", "a")
			f.File(two, "b.txt", "text/plain", "b")
			f.File(three, "c.txt", "text/plain", "c")
			f.sync()
			f.Trash(one, true)
			f.Delete(two)
			f.Share(three, false)
			r := f.sync()
			require.Empty(t, f.store.Docs())
			require.Equal(t, 3, r.Deleted)
			f.Trash(one, false)
			f.sync()
			require.Equal(t, []string{"a.txt"}, f.store.files())
			require.Equal(t, "a", f.store.text(a))
		})
	}
}

func TestAFolderThatMovesTakesItsSubtree(t *testing.T) {
	f := newFixture(t)
	inside, outside := f.Folder(root, "Inside"), f.Folder(root, "Outside")
	sub := f.Folder(outside, "Sub")
	deep := f.Folder(sub, "Deep")
	f.File(deep, "deep.txt", "text/plain", "deep")
	f.File(sub, "sub.txt", "text/plain", "sub")
	f.File(inside, "in.txt", "text/plain", "in")
	f.cfg = googledrive.Config{FolderID: inside}
	f.sync()
	require.Equal(t, []string{"in.txt"}, f.store.files())

	f.Move(sub, inside)
	f.again()
	require.Equal(t, []string{"deep.txt", "in.txt", "sub.txt"}, f.store.files())
	require.Equal(t, 3, f.Calls("list", "changes"), "one listing for each level")

	f.Move(deep, inside) // within
	f.again()
	require.Equal(t, []string{"deep.txt", "in.txt", "sub.txt"}, f.store.files())
	require.Zero(t, f.Reads(""))

	f.Move(sub, outside)
	f.again()
	require.Equal(t, []string{"deep.txt", "in.txt"}, f.store.files())
	require.Equal(t, 1, f.Calls())

	f.Move(deep, sub) // out of the tree through a folder that is out already
	f.again()
	require.Equal(t, []string{"in.txt"}, f.store.files())
}

func TestFilesMoveInAndOutOfTheFolder(t *testing.T) {
	f := newFixture(t)
	inside, outside := f.Folder(root, "Inside"), f.Folder(root, "Outside")
	a := f.File(inside, "a.txt", "text/plain", "a")
	b := f.File(outside, "b.txt", "text/plain", "b")
	f.cfg = googledrive.Config{Source: "folder", FolderID: inside}
	f.sync()
	f.Move(a, outside)
	f.Move(b, inside)
	f.again()
	require.Equal(t, []string{"b.txt"}, f.store.files())
	require.Equal(t, 2, f.Calls())
}

func TestASharedDriveIsSyncedByItsOwnFeed(t *testing.T) {
	f := newFixture(t)
	drive := f.Drive("Team")
	sub := f.Folder(drive, "Sub")
	a := f.File(sub, "a.txt", "text/plain", "a")
	mine := f.File(root, "mine.txt", "text/plain", "mine")
	f.cfg = googledrive.Config{DriveID: drive}
	f.sync()
	require.Equal(t, []string{"a.txt"}, f.store.files())
	f.Move(mine, sub) // from My Drive into the shared drive
	f.sync()
	require.Equal(t, []string{"a.txt", "mine.txt"}, f.store.files())
	f.Move(a, root)
	f.sync()
	require.Equal(t, []string{"mine.txt"}, f.store.files())
	f.Leave(drive, false)
	_, err := f.try()
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "no longer a member")
	require.Equal(t, []string{"mine.txt"}, f.store.files())
	f.Leave(drive, true)
	f.sync()
	require.Equal(t, []string{"mine.txt"}, f.store.files())
}

func TestAFolderOfASharedDriveFollowsThatDrive(t *testing.T) {
	f := newFixture(t)
	drive := f.Drive("Team")
	sub := f.Folder(drive, "Sub")
	f.File(sub, "a.txt", "text/plain", "a")
	f.File(drive, "b.txt", "text/plain", "b")
	f.cfg = googledrive.Config{FolderID: sub}
	f.sync()
	require.Equal(t, []string{"a.txt"}, f.store.files())
	f.File(sub, "c.txt", "text/plain", "c")
	f.sync()
	require.Equal(t, []string{"a.txt", "c.txt"}, f.store.files())
}

func TestAllSharedDrivesCanBeIncluded(t *testing.T) {
	f := newFixture(t)
	one, two := f.Drive("One"), f.Drive("Two")
	a := f.File(one, "a.txt", "text/plain", "a")
	b := f.File(two, "b.txt", "text/plain", "b")
	f.File(root, "mine.txt", "text/plain", "mine")
	f.cfg = googledrive.Config{IncludeSharedDrives: true}
	f.sync()
	require.Equal(t, []string{"a.txt", "b.txt", "mine.txt"}, f.store.files())

	f.Move(a, two) // gone from one feed, there in another, whichever comes first
	f.Move(b, one)
	f.sync()
	require.Equal(t, []string{"a.txt", "b.txt", "mine.txt"}, f.store.files())

	three := f.Drive("Three")
	f.File(f.Folder(three, "Sub"), "c.txt", "text/plain", "c")
	f.sync()
	require.Equal(t, []string{"a.txt", "b.txt", "c.txt", "mine.txt"}, f.store.files())

	f.Leave(three, false)
	f.Leave(one, false)
	f.sync()
	require.Equal(t, []string{"a.txt", "mine.txt"}, f.store.files())
}

func TestARootThatWasThereAndIsGoneIsAwayAndDeletesNothing(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	f.File(top, "a.txt", "text/plain", "a")
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	f.Trash(top, true)
	_, err := f.try()
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "in the trash")
	require.Equal(t, []string{"a.txt"}, f.store.files())
	f.ExpireTokens()
	f.Inject(fakedrive.Fault{Kind: "get", ID: top, Times: 1, Status: 404, Reason: "notFound"})
	_, err = f.try()
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "folder_id")
	require.Equal(t, []string{"a.txt"}, f.store.files())
	f.Inject(fakedrive.NoPermission.On("get", 1).Of(top))
	_, err = f.try()
	require.ErrorIs(t, err, worker.ErrPermanent, "a permission is its user's to give")
	f.Trash(top, false)
	f.sync()
	require.Equal(t, []string{"a.txt"}, f.store.files())
}

func TestARootThatMovesToAnotherDriveIsFollowed(t *testing.T) {
	f := newFixture(t)
	drive := f.Drive("Team")
	top := f.Folder(root, "Top")
	a := f.File(top, "a.txt", "text/plain", "a")
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	f.Move(top, drive)
	r := f.again()
	require.True(t, r.Restarted)
	require.Zero(t, f.Reads(""), "what has not changed is not read again")
	f.Write(a, "changed in the shared drive")
	f.sync()
	require.Equal(t, "changed in the shared drive", f.store.text(a))
}

func TestWhatIsNoFolderCannotBeSynced(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct{ id, want string }{
		"a file":     {f.File(root, "a.txt", "text/plain", "a"), "is not a folder"},
		"a shortcut": {f.Shortcut(root, "s", root), "is a shortcut"},
		"the trash":  {f.trashed(), "is in the trash"},
		"nothing":    {"1NoSuchId", "is not there for the connected account"},
	} {
		f.cfg = googledrive.Config{FolderID: c.id}
		_, err := f.try()
		require.ErrorIs(t, err, worker.ErrPermanent, name)
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, "folder_id", name)
	}
}

func (f *fixture) trashed() string {
	id := f.Folder(root, "In the trash")
	f.Trash(id, true)
	return id
}

func TestANewConfigurationListsEverythingAndForgetsTheRest(t *testing.T) {
	f := newFixture(t)
	sub := f.Folder(root, "Sub")
	f.File(sub, "in.txt", "text/plain", "in")
	f.File(root, "out.txt", "text/plain", "out")
	f.sync()
	f.cfg = googledrive.Config{FolderID: sub}
	f.store.Reconfigure()
	f.sync()
	require.Equal(t, []string{"in.txt"}, f.store.files())
	require.Len(t, f.store.Docs(), 1)
}

// Google takes names of 32,767 characters, and all folders are held until it is known where they are.
func TestOfALongNameIsHeldWhatIsStoredOfIt(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("n", 30_000)
	folder := f.Folder(root, long)
	file := f.File(folder, long+".csv", "text/plain", "a,b\n1,2\n3,4\n")
	shortcut := f.Shortcut(root, long, f.File("", long, "text/plain", "words"))
	f.sync()
	for _, id := range []string{folder, file, shortcut} {
		require.Len(t, f.store.Docs()[id].Title, worker.MaxTitleBytes)
	}
	require.Equal(t, "text/csv", f.store.Docs()[file].MediaType, "its extension says what it is read as")
	f.again()
	require.Empty(t, append(f.store.put, f.store.touched...))
	f.ExpireTokens()
	f.sync()
	require.Empty(t, append(f.store.put, f.store.touched...))
}
