//go:build !race

// One thing after another for minutes: there is no race to find.

package googledrive_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

// Where the drive itself answers, files that cannot be read are at fault, however many there are.
func TestFilesThatCannotBeReadFailAloneHoweverManyThereAre(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	var broken []string
	for i := range 50 {
		id := f.File(root, fmt.Sprintf("a%03d.txt", i), "text/plain", fmt.Sprint("words ", i))
		f.Inject(fakedrive.Broken.On("media", 1<<30).Of(id))
		broken = append(broken, id)
	}
	for n := range 3 {
		fresh := f.File(root, fmt.Sprintf("new%d.txt", n), "text/plain", "new")
		f.sync()
		require.Equal(t, "new", f.store.text(fresh))
		for _, id := range broken {
			require.Contains(t, f.store.text(id), "failed")
		}
	}
	f.Heal()
	f.sync()
	for i, id := range broken {
		require.Equal(t, fmt.Sprint("words ", i), f.store.text(id))
	}
}

// What a sync is about to delete counts for nothing.
func TestMaxFilesCountsWhatIsInTheDriveAndNotWhatWasThereBefore(t *testing.T) {
	for _, expired := range []bool{true, false} {
		t.Run(fmt.Sprint("tokens expired ", expired), func(t *testing.T) {
			f := newFixture(t)
			f.cfg = googledrive.Config{MaxFiles: 100}
			f.MaxPage = 10
			f.store.Allows = true
			var ids []string
			for i := range 60 {
				ids = append(ids, f.File(root, fmt.Sprintf("k%d.txt", i), "text/plain", "words"))
			}
			f.sync()
			for i := range 60 {
				f.File(root, fmt.Sprintf("n%d.txt", i), "text/plain", "new")
			}
			for _, id := range ids {
				f.Delete(id)
			}
			if expired {
				f.ExpireTokens()
			}
			f.sync()
			require.Len(t, f.store.files(), 60)
		})
	}
}

// edits gives files a text for which there is no room.
func (f *fixture) edits(ids ...string) {
	for _, id := range ids {
		f.Write(id, "longer words "+id)
	}
	f.store.Refuses = full
	f.sync()
}

func TestWhatWasRefusedBelowAFolderThatHasGoneGoesAtOnceThoughTheQuotaStaysFull(t *testing.T) {
	for name, goes := range map[string]func(f *fixture, folder string){
		"moved out": func(f *fixture, folder string) { f.Move(folder, root) },
		"deleted":   func(f *fixture, folder string) { f.Delete(folder) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			top := f.Folder(root, "Top")
			f.cfg = googledrive.Config{FolderID: top}
			keep, gone := f.Folder(top, "keep"), f.Folder(top, "gone")
			var ids, lost []string
			for i := range 300 {
				ids = append(ids, f.File(keep, fmt.Sprintf("k%d.txt", i), "text/plain", fmt.Sprint("words ", i)))
			}
			for i := range 50 {
				lost = append(lost, f.File(gone, fmt.Sprintf("g%d.txt", i), "text/plain", fmt.Sprint("withdrawn ", i)))
			}
			f.sync()
			f.edits(append(ids, lost...)...)
			goes(f, gone)
			f.again()
			for _, id := range lost {
				require.NotContains(t, f.store.Docs(), id)
			}
			require.LessOrEqual(t, f.Calls("media"), 110, "what is refused is not all read again")
			for _, id := range ids {
				require.NotEmpty(t, f.store.found(id))
			}
			f.store.Refuses = nil
			for range 3 {
				f.sync()
			}
			for _, id := range ids {
				require.Equal(t, "longer words "+id, f.store.text(id))
			}
		})
	}
}

// What may not be asked for any more may have moved to where others may not read it.
func TestTheOldTextOfWhatWasRefusedAndMayNotBeAskedForGoesUnlessAListingShowsIt(t *testing.T) {
	f := newFixture(t)
	top, out := f.Folder(root, "Top"), f.Folder(root, "Out")
	f.cfg = googledrive.Config{FolderID: top}
	sub := f.Folder(top, "sub")
	moves := f.File(sub, "x.txt", "text/plain", "withdrawn words")
	stays := f.File(top, "y.txt", "text/plain", "other words")
	f.sync()
	f.edits(moves, stays)
	f.store.Refuses = nil
	f.Move(sub, out)
	for _, id := range []string{moves, stays} {
		for _, kind := range []string{"get", "media"} {
			f.Inject(fakedrive.NoPermission.On(kind, 1<<30).Of(id))
		}
	}
	f.sync()
	require.NotContains(t, f.store.Docs(), moves)
	require.Contains(t, f.store.text(stays), "failed")
	require.Equal(t, "other words", f.store.found(stays))
	require.LessOrEqual(t, f.again().Pages, 1, "nothing is listed again")
	f.Heal()
	f.sync()
	require.Equal(t, "longer words "+stays, f.store.text(stays))
}

// What may not be asked for counts towards what is looked at.
func TestAQuietSyncLooksAtNoMoreThanItsShareOfWhatWasRefused(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	for i := range 500 {
		f.File(root, fmt.Sprintf("k%d.txt", i), "text/plain", fmt.Sprint("words ", i))
	}
	f.store.Refuses = full
	f.sync()
	for _, id := range f.store.IDs() {
		f.Inject(fakedrive.NoPermission.On("get", 1<<30).Of(id))
	}
	for range 2 {
		f.again()
		require.LessOrEqual(t, f.Calls("get"), 110)
	}
}

// Whether there is room again shows what the last sync tried.
func TestWhatWasRefusedComesInEverLargerSharesOnceThereIsRoom(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	for i := range 1200 {
		f.File(root, fmt.Sprintf("k%d.txt", i), "text/plain", fmt.Sprint("words ", i))
	}
	f.store.Refuses = full
	f.sync()
	put := func() int { f.sync(); return len(f.store.put) }
	require.Equal(t, []int{100, 100}, []int{put(), put()})
	f.store.Refuses = nil
	require.Equal(t, []int{100, 400, 700, 0}, []int{put(), put(), put(), put()})
}

func TestAFailedFileThatCannotBeAskedForFailsAlone(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	bad := f.File(root, "bad.txt", "text/plain", "bad")
	f.Inject(fakedrive.Broken.On("media", 1<<30).Of(bad), fakedrive.Broken.On("get", 1<<30).Of(bad))
	for n := range 3 {
		fresh := f.File(root, fmt.Sprintf("new%d.txt", n), "text/plain", "new")
		f.sync()
		require.Equal(t, "new", f.store.text(fresh))
	}
	f.Heal()
	f.sync()
	require.Equal(t, "bad", f.store.text(bad))
}

func TestAShortcutThatMayNotBeAskedForFailsAlone(t *testing.T) {
	for name, fault := range map[string]fakedrive.Fault{"refused": fakedrive.NoPermission, "broken": fakedrive.Broken} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			top, out := f.Folder(root, "Top"), f.Folder(root, "Out")
			f.cfg = googledrive.Config{FolderID: top}
			f.opts.OwnerAlone = false
			target := f.File(top, "a.txt", "text/plain", "words")
			short := f.Shortcut(top, "short", target)
			f.sync()
			f.Move(target, out)
			f.Inject(fault.On("get", 1<<30).Of(short))
			for n := range 3 {
				fresh := f.File(top, fmt.Sprintf("new%d.txt", n), "text/plain", "new")
				f.sync()
				require.Equal(t, "new", f.store.text(fresh))
			}
			f.Heal()
			f.sync()
			require.Contains(t, f.store.text(short), "failed")
		})
	}
}

// signInFails is an error about the account, as package provider has them.
type signInFails struct{}

func (signInFails) Error() string {
	return "Google sign-in answered 400 invalid_grant: connect it again"
}
func (signInFails) EndsSync() bool                                    { return true }
func (f signInFails) RoundTrip(*http.Request) (*http.Response, error) { return nil, f }

func TestASignInThatFailsIsNotSaidToBeGoogleDrive(t *testing.T) {
	f := newFixture(t)
	f.opts.Client = &http.Client{Transport: signInFails{}}
	_, err := f.try()
	require.EqualError(t, err, signInFails{}.Error())
}

// The tokens expire, and everything is listed again. The run stops somewhere; until the next, the account has left a shared drive, which its
// owner allows to go.
func TestADriveThatIsLeftDuringARelistingTakesNothingElseAlong(t *testing.T) {
	for n := 1; ; n++ {
		f := newFixture(t)
		f.MaxPage = 25
		f.cfg = googledrive.Config{IncludeSharedDrives: true}
		f.lots(root, 125)
		team, other := f.Drive("Team"), f.Drive("Other")
		f.lots(team, 100)
		f.lots(other, 25)
		f.sync()
		require.Len(t, f.store.files(), 250)
		f.ExpireTokens()
		f.store.kill = func(checkpoint int) (bool, bool) { return false, checkpoint == n }
		_, err := f.try()
		f.store.kill = nil
		if err == nil { // there is no such checkpoint
			require.Greater(t, n, 5)
			return
		}
		require.ErrorIs(t, err, errKilled)
		f.Leave(team, false)
		_, _ = f.try()
		f.store.Allows = true
		_, err = f.try()
		for range 3 {
			require.NoError(t, err)
			_, err = f.try()
		}
		require.Len(t, f.store.files(), 150, "stopped at checkpoint %d", n)
	}
}
