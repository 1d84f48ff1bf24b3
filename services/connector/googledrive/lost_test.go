package googledrive_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

var notFound = fakedrive.Fault{Times: 1, Status: http.StatusNotFound, Reason: "notFound"}

// withTop is a drive with a folder of 100 files and 20 beside it, all stored. The folder was not there when it was listed once, some of its files
// were edited since, and it is not there when the next sync asks for it.
type withTop struct {
	*fixture
	top    string
	edited []string
}

func lostFolder(t *testing.T, edited int) withTop {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	top := f.Folder(root, "Top")
	files := f.lots(top, 100)
	f.lots(root, 20)
	f.sync()
	f.Rename(top, "Top, renamed")
	f.Inject(notFound.On("list", 1))
	f.sync()
	for _, id := range files[:edited] {
		f.Write(id, "new words")
	}
	f.Inject(notFound.On("get", 1).Of(top))
	return withTop{f, top, files[:edited]}
}

func TestFilesOfAFolderThatIsTwiceAwayStayWhereTheChangesNameThem(t *testing.T) {
	for _, written := range []int{60, 100} {
		t.Run(fmt.Sprint(written), func(t *testing.T) {
			f := lostFolder(t, written)
			_, err := f.try()
			require.Equal(t, written == 60, errors.Is(err, source.ErrDeletionsRefused), "those that no change names are asked about: %v", err)
			require.Zero(t, f.Heal())
			require.Len(t, f.store.files(), 120)
			f.sync()
			f.sync()
			for _, id := range f.edited {
				require.Equal(t, "new words", f.store.text(id))
			}
			require.Len(t, f.store.files(), 120)
		})
	}
}

func TestFilesThatChangesNamedBelowALostFolderStayHoweverLongItIsAway(t *testing.T) {
	f := lostFolder(t, 100)
	f.sync()
	require.Zero(t, f.Heal())
	require.Len(t, f.store.files(), 120)
	f.Inject(notFound.On("get", 3).Of(f.top))
	for range 4 {
		if _, err := f.try(); !errors.Is(err, source.ErrDeletionsRefused) {
			require.NoError(t, err)
		}
	}
	require.Len(t, f.store.files(), 120)
}

func TestFilesThatChangesNamedBelowALostFolderStayWhereItMayNotBeAskedFor(t *testing.T) {
	for _, status := range []int{500, 403} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f := lostFolder(t, 100)
			f.sync()
			require.Zero(t, f.Heal())
			require.Len(t, f.store.files(), 120)
			reason := "backendError"
			if status == 403 {
				reason = "insufficientFilePermissions"
			}
			f.Inject(fakedrive.Fault{Kind: "get", ID: f.top, Times: 20, Status: status, Reason: reason})
			f.sync()
			f.Heal()
			require.Len(t, f.store.files(), 120)
			f.sync()
			require.Len(t, f.store.files(), 120)
		})
	}
}

func TestShortcutsOfADriveThatIsNotListedGoNotUnasked(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{IncludeSharedDrives: true}
	f.File(root, "mine.txt", "text/plain", "mine")
	targets, team := f.lots(f.Folder("", "shared with me"), 100), f.Drive("Team")
	for i, id := range targets {
		f.Shortcut(team, fmt.Sprint("s", i), id)
	}
	f.sync()
	n := len(f.store.files())
	f.Leave(team, false)
	for range 3 {
		_, err := f.try()
		require.ErrorIs(t, err, source.ErrDeletionsRefused)
		require.Len(t, f.store.files(), n)
	}
	f.Leave(team, true)
	f.sync()
	require.Len(t, f.store.files(), n)
}

// Its changes come before those of the folder that it was moved into, whose listing is not there once.
func TestEditedFilesBelowAFolderThatComesLater(t *testing.T) {
	for _, missing := range []int{1, 2} {
		t.Run(fmt.Sprint(missing), func(t *testing.T) {
			f := newFixture(t)
			f.cfg = googledrive.Config{}
			c := f.Folder(root, "C")
			files := f.lots(c, 100)
			f.lots(root, 20)
			f.sync()
			p := f.Folder(root, "P")
			f.Move(c, p)
			for _, id := range files {
				f.Write(id, "new words")
			}
			f.Rename(p, "P, renamed")
			f.opts.PageSize = 60
			f.Inject(fakedrive.Fault{Kind: "list", Times: 1, Status: http.StatusNotFound, Reason: "notFound"})
			f.sync()
			f.Heal()
			require.Len(t, f.store.files(), 120)
			if missing == 2 {
				f.Inject(fakedrive.Fault{Kind: "get", ID: p, Times: 1, Status: http.StatusNotFound, Reason: "notFound"})
			}
			for range 4 {
				f.sync()
			}
			require.Len(t, f.store.files(), 120)
		})
	}
}

// A folder is twice not there for a moment, and is lost with its 30 of 130 files (few); the sync dies among these deletions, or just after.
// Where it does not die the next sync finds the folder, and all is back.
func TestAFolderThatIsLostByASyncThatDiesComesBack(t *testing.T) {
	for _, after := range []int{-1, 0, 1, 5, 31} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			f := newFixture(t)
			f.cfg = googledrive.Config{}
			top := f.Folder(root, "Top")
			f.lots(top, 30)
			f.lots(root, 100)
			f.sync()
			f.Rename(top, "Top, renamed")
			f.Inject(notFound.On("list", 1))
			f.sync()
			f.Inject(notFound.On("get", 1).Of(top))
			if n := after; n >= 0 {
				f.store.dies = func() bool { n--; return n < 0 }
			}
			_, err := f.try()
			f.store.dies = nil
			if after >= 0 && err != nil {
				require.ErrorIs(t, err, errKilled)
			}
			require.Zero(t, f.Heal())
			for range 4 {
				f.sync()
			}
			require.Len(t, f.store.files(), 130)
		})
	}
}

// A shared drive of 19 files (few) is not listed for one sync, which dies among the deletions; then it is listed again.
func TestADriveThatIsNotListedByASyncThatDiesComesBack(t *testing.T) {
	for _, after := range []int{-1, 5, 19} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			f := newFixture(t)
			f.cfg = googledrive.Config{IncludeSharedDrives: true}
			f.lots(root, 100)
			team := f.Drive("Team")
			f.lots(team, 19)
			f.sync()
			f.Leave(team, false)
			if n := after; n >= 0 {
				f.store.dies = func() bool { n--; return n < 0 }
			}
			_, err := f.try()
			f.store.dies = nil
			if after >= 0 && err != nil {
				require.ErrorIs(t, err, errKilled)
			}
			f.Leave(team, true)
			for range 3 {
				f.sync()
			}
			require.Len(t, f.store.files(), 119)
		})
	}
}

// A shared drive is not listed for a while, and the sync that sees that first dies after it has begun to look at what failed.
func TestADriveThatIsNotListedGoesNotUnaskedAfterASyncThatDies(t *testing.T) {
	for _, how := range []string{"killed after the checkpoint", "401 while it looks", "5xx storm"} {
		t.Run(how, func(t *testing.T) {
			f := newFixture(t)
			f.cfg = googledrive.Config{IncludeSharedDrives: true}
			f.File(root, "mine.txt", "text/plain", "mine")
			bad := f.File(root, "bad.txt", "text/plain", "bad")
			team := f.Drive("Team")
			f.lots(team, 300)
			f.Inject(fakedrive.DownloadQuota.On("media", 20).Of(bad))
			f.sync()
			f.Heal()
			require.Len(t, f.store.files(), 302)
			f.Leave(team, false)
			switch how {
			case "killed after the checkpoint":
				f.store.kill = func(int) (bool, bool) { return false, true }
			case "401 while it looks":
				f.Inject(fakedrive.Fault{Kind: "get", ID: bad, Times: 20, Status: http.StatusUnauthorized, Reason: "authError"})
			case "5xx storm":
				f.Inject(fakedrive.Fault{Kind: "media", ID: bad, Times: 50, Status: http.StatusForbidden, Reason: "dailyLimitExceeded"})
			}
			_, err := f.try()
			f.store.kill = nil
			f.Heal()
			require.Error(t, err)
			require.Len(t, f.store.files(), 302)
			_, err = f.try() // the retry
			require.ErrorIs(t, err, source.ErrDeletionsRefused)
			require.Len(t, f.store.files(), 302, "300 documents were deleted, and nobody was asked")
		})
	}
}

// A folder is lost with its files, and other files, which could not be read, are not there when they are looked for.
func TestOnePermissionIsEnoughForAllThatIsLost(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	below, others := f.lots(top, 40), f.lots(root, 30)
	f.sync()
	f.Rename(top, "Top, renamed")
	for _, id := range others {
		f.Write(id, "edited "+id)
		f.Inject(fakedrive.NoPermission.On("media", 1000).Of(id))
	}
	f.Inject(notFound.On("list", 1000))
	_, err := f.try()
	require.NoError(t, err)
	f.Heal()
	away := func() error {
		for _, id := range slices.Concat([]string{top}, others, below) {
			f.Inject(notFound.On("get", 1000).Of(id))
		}
		_, err := f.try()
		f.Heal()
		return err
	}
	require.ErrorIs(t, away(), source.ErrDeletionsRefused)
	require.Len(t, f.store.files(), 70)
	f.store.Allows = true
	require.NoError(t, away())
	require.Empty(t, f.store.files())
}
