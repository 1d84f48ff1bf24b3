package googledrive_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

func TestARemovedItemThatCannotBeAskedForStopsNothing(t *testing.T) {
	f := newFixture(t)
	f.Drive("One")
	f.cfg = googledrive.Config{IncludeSharedDrives: true}
	bad := f.File(root, "bad.txt", "text/plain", "bad")
	f.sync()
	f.Delete(bad)
	f.Inject(fakedrive.Fault{Kind: "get", ID: bad, Times: 1 << 30, Status: http.StatusInternalServerError, Reason: "backendError"})
	for n := range 3 {
		f.File(root, fmt.Sprint("new", n, ".txt"), "text/plain", "later")
		_, err := f.try()
		require.NoError(t, err)
		require.Len(t, f.store.files(), n+2)
	}
	f.Heal()
	f.sync()
	require.Len(t, f.store.files(), 3)
}

func TestAFolderThatComesAndIsNotThereForAMomentIsListedByTheNextSync(t *testing.T) {
	f := newFixture(t)
	in, out := f.Folder(root, "in"), f.Folder(root, "out")
	f.cfg = googledrive.Config{FolderID: in}
	f.File(in, "a.txt", "text/plain", "a")
	top := f.Folder(out, "top")
	f.File(top, "b.txt", "text/plain", "b")
	f.sync()
	f.Move(top, in)
	f.Inject(fakedrive.Fault{Kind: "list", Times: 1, Status: http.StatusNotFound, Reason: "notFound"})
	_, err := f.try()
	require.NoError(t, err)
	f.Heal()
	f.sync()
	require.Len(t, f.store.files(), 2)
}

func TestAFileThatIsNotThereForAMomentStaysAndIsReadAgain(t *testing.T) {
	for name, faults := range map[string]func(id string) []fakedrive.Fault{
		"while it is downloaded": func(id string) []fakedrive.Fault {
			return []fakedrive.Fault{{Kind: "media", ID: id, Times: 1, Status: http.StatusNotFound, Reason: "notFound"}}
		},
		"once it has failed": func(id string) []fakedrive.Fault {
			return []fakedrive.Fault{fakedrive.DownloadQuota.On("media", 5).Of(id)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.cfg = googledrive.Config{}
			a := f.File(root, "a.txt", "text/plain", "a")
			f.File(root, "b.txt", "text/plain", "b")
			f.sync()
			f.Write(a, "new")
			f.Inject(append(faults(a), fakedrive.Fault{Kind: "get", ID: a, Times: 1, Status: http.StatusNotFound, Reason: "notFound"})...)
			for range 2 {
				_, err := f.try()
				require.NoError(t, err)
				require.Len(t, f.store.files(), 2)
			}
			f.Heal()
			f.sync()
			require.Len(t, f.store.files(), 2)
		})
	}
}

func TestAFileThatTwoSyncsDoNotFindIsDeleted(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	a := f.File(root, "a.txt", "text/plain", "a")
	f.File(root, "b.txt", "text/plain", "b")
	f.sync()
	f.Write(a, "new")
	notThere := fakedrive.Fault{Kind: "get", ID: a, Times: 1, Status: http.StatusNotFound, Reason: "notFound"}
	f.Inject(fakedrive.Fault{Kind: "media", ID: a, Times: 1, Status: http.StatusNotFound, Reason: "notFound"}, notThere)
	_, err := f.try()
	require.NoError(t, err)
	f.Inject(notThere)
	_, err = f.try()
	require.NoError(t, err)
	require.Len(t, f.store.files(), 1)
}

// The folder alone is asked for as well, so that two answers are one finding.
func TestAFolderThatIsNotThereForAMomentInAListingKeepsWhatIsBelowIt(t *testing.T) {
	for skip := range 4 {
		t.Run(fmt.Sprint("after ", skip), func(t *testing.T) {
			f := newFixture(t)
			top := f.Folder(root, "Top")
			sub := f.Folder(top, "Sub")
			f.cfg = googledrive.Config{FolderID: top}
			for i := range 5 {
				f.File(top, fmt.Sprint(i, ".txt"), "text/plain", "a")
				f.File(sub, fmt.Sprint("sub", i, ".txt"), "text/plain", "a")
			}
			f.sync()
			f.ExpireTokens()
			f.Inject(fakedrive.Fault{Kind: "list", Times: 2, Skip: skip, Status: http.StatusNotFound, Reason: "notFound"})
			require.Zero(t, f.sync().Deleted)
			f.Heal()
			require.Zero(t, f.sync().Deleted)
			require.Len(t, f.store.files(), 10)
			require.Equal(t, 1, f.again().Pages, "nothing is listed any more")
		})
	}
}

// The list of drives says which there are.
func TestASharedDriveThatIsListedAndNotThereForAMomentStays(t *testing.T) {
	for _, kind := range []string{"changes", "start"} {
		t.Run(kind, func(t *testing.T) {
			f := newFixture(t)
			f.cfg = googledrive.Config{IncludeSharedDrives: true}
			f.File(root, "mine.txt", "text/plain", "mine")
			one := f.Drive("One")
			f.File(one, "a.txt", "text/plain", "a")
			f.sync()
			f.File(f.Drive("Two"), "b.txt", "text/plain", "b")
			f.Write(f.File(one, "c.txt", "text/plain", "c"), "changed")
			skip := map[string]int{"changes": 1, "start": 0}[kind] // My Drive's come first
			f.Inject(fakedrive.Fault{Kind: kind, Skip: skip, Times: 1, Status: http.StatusNotFound, Reason: "notFound"})
			require.Zero(t, f.sync().Deleted)
			require.Contains(t, f.store.files(), "a.txt")
			require.Zero(t, f.Heal())
			f.sync()
			require.Equal(t, []string{"a.txt", "b.txt", "c.txt", "mine.txt"}, f.store.files())
		})
	}
}

func TestAnExpiredTokenOfASharedDriveIsNoDriveThatIsGone(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{IncludeSharedDrives: true}
	a := f.File(f.Drive("One"), "a.txt", "text/plain", "a")
	f.sync()
	f.Inject(fakedrive.Fault{Kind: "changes", Skip: 1, Times: 1, Status: http.StatusGone, Reason: "gone"})
	f.ResetCalls()
	require.True(t, f.sync().Restarted)
	require.Zero(t, f.Reads(a))
	require.Equal(t, []string{"a.txt"}, f.store.files())
}

func TestAListWithoutDrivesRemovesManyFilesOnlyIfTheOwnerAllowsIt(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{IncludeSharedDrives: true}
	f.File(root, "mine.txt", "text/plain", "mine")
	team := f.Drive("Team")
	for i := range 30 {
		f.File(team, fmt.Sprint(i, ".txt"), "text/plain", "words")
	}
	f.sync()
	f.Leave(team, false)
	for range 2 {
		_, err := f.try()
		require.ErrorContains(t, err, "30 of the 31 documents")
		require.Len(t, f.store.files(), 31)
	}
	f.store.Allows = true
	f.sync()
	require.Equal(t, []string{"mine.txt"}, f.store.files())
}

func TestANewFileThatIsNotThereForAMomentIsReadByTheNextSync(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	f.sync()
	a := f.File(root, "a.txt", "text/plain", "a")
	for _, kind := range []string{"media", "get"} {
		f.Inject(fakedrive.Fault{Kind: kind, ID: a, Times: 1, Status: http.StatusNotFound, Reason: "notFound"})
	}
	require.Equal(t, 1, f.sync().Failed)
	f.sync()
	require.Equal(t, "a", f.store.text(a))
	require.Equal(t, 1, f.again().Calls)
}

func TestAFolderThatAListingDoesNotFindTwiceEndsTheSyncAndDeletesNothing(t *testing.T) {
	t.Run("it is there again", func(t *testing.T) {
		f := listedWithout(t)
		f.Heal()
		f.File(f.sub, "new.txt", "text/plain", "new")
		require.Zero(t, f.sync().Deleted)
		require.Len(t, f.store.files(), 6)
		require.Equal(t, 1, f.again().Pages)
	})
	t.Run("it stays away", func(t *testing.T) {
		f := listedWithout(t)
		f.Heal()
		notThere := fakedrive.Fault{Kind: "list", Times: 1, Status: http.StatusNotFound, Reason: "notFound"}
		second := notThere
		notThere.Times, second.Skip, second.Times = 2, 1, 2
		f.Inject(notThere, second) // both, of each alone the second, and that again
		f.sync()
		require.Empty(t, f.store.files())
		f.sync()
		require.Len(t, f.store.files(), 5, "it is there again")
		f.again()
		require.Empty(t, f.store.put)
	})
}

type withSub struct {
	*fixture
	sub string
}

// listedWithout is a folder whose listing has failed, as a folder below it is not there when it is listed.
func listedWithout(t *testing.T) withSub {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	sub := f.Folder(top, "Sub")
	f.cfg = googledrive.Config{FolderID: top}
	for i := range 5 {
		f.File(sub, fmt.Sprint(i, ".txt"), "text/plain", "a")
	}
	f.sync()
	f.ExpireTokens()
	f.store.Allows = true // the next but one deletes all
	f.Inject(fakedrive.Fault{Kind: "list", Times: 50, Skip: 1, Status: http.StatusNotFound, Reason: "notFound"})
	_, err := f.try()
	require.ErrorContains(t, err, "nothing says that it is gone")
	require.Len(t, f.store.files(), 5)
	return withSub{f, sub}
}

// lots are n files in a folder.
func (f *fixture) lots(parent string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, f.File(parent, fmt.Sprint(i, ".txt"), "text/plain", fmt.Sprint("words ", i)))
	}
	return ids
}

func TestAFolderThatTwoSyncsDoNotFindTakesNothingAlongUnasked(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	top := f.Folder(root, "Top")
	f.lots(top, 100)
	f.sync()
	f.Rename(top, "Top, renamed")
	notThere := fakedrive.Fault{Times: 1, Status: http.StatusNotFound, Reason: "notFound"}
	f.Inject(notThere.On("list", 1))
	f.sync()
	f.Inject(notThere.On("get", 1).Of(top))
	_, err := f.try()
	require.ErrorIs(t, err, source.ErrDeletionsRefused)
	require.Zero(t, f.Heal())
	f.sync()
	require.Len(t, f.store.files(), 100)
}

func TestFoldersDoNotCountWhereASharedDriveIsNotListed(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{IncludeSharedDrives: true}
	for i := range 100 {
		f.Folder(root, fmt.Sprint("folder ", i))
	}
	team := f.Drive("Team")
	f.lots(team, 40)
	f.sync()
	f.Leave(team, false)
	_, err := f.try()
	require.ErrorContains(t, err, "40 of the 40 documents")
}
