//go:build !race

// One thing after another for minutes: there is no race to find.

package googledrive_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

// full refuses everything, as the quota of an owner does who has no room left.
func full(d worker.Document) bool { return len(d.Chunks) > 0 }

// never gives every deletion up.
func never(string) bool { return true }

// shortcutTo is a connector's only document: it stands for a file elsewhere.
func (f *fixture) shortcutTo(words string) (shortcut, target string) {
	top := f.Folder(root, "Top")
	f.cfg = googledrive.Config{FolderID: top}
	target = f.File("", "target.txt", "text/plain", words)
	return f.Shortcut(top, "short", target), target
}

// neverLoses fails where a document is stored without the text that it had.
func (f *fixture) neverLoses(id string) {
	f.t.Helper()
	for _, d := range f.store.Sent() {
		if d.SourceID == id {
			require.NotEmpty(f.t, d.Chunks, "%+v", d)
		}
	}
}

func TestAShortcutThatIsRefusedKeepsItsText(t *testing.T) {
	f := newFixture(t)
	s, target := f.shortcutTo("old words")
	f.sync()
	f.Write(target, "new words, and many more of them")
	f.store.Refuses = full
	for range 3 {
		f.sync()
		f.neverLoses(s)
		require.Equal(t, "old words", f.store.found(s))
	}
	f.Rename(s, "renamed")
	f.ExpireTokens()
	f.sync()
	f.neverLoses(s)
	require.Equal(t, "renamed", f.store.Docs()[s].Title)
	f.store.Refuses = nil
	f.sync()
	require.Equal(t, "new words, and many more of them", f.store.text(s))
	require.Equal(t, "renamed", f.store.Docs()[s].Title)
	f.again()
	require.Empty(t, f.store.put)
}

func TestAShortcutThatFailedAndIsReportedAgainKeepsItsText(t *testing.T) {
	f := newFixture(t)
	s, target := f.shortcutTo("old words")
	f.sync()
	f.Write(target, "new words")
	f.Inject(fakedrive.Fault{Kind: "media", Times: 50, Status: 403, Reason: "insufficientFilePermissions"})
	f.sync()
	require.Contains(t, f.store.text(s), "failed")
	for _, change := range []func(){func() { f.Rename(s, "renamed") }, f.ExpireTokens, func() { f.Move(s, f.Folder(f.cfg.FolderID, "Sub")) }} {
		change()
		f.sync()
		f.neverLoses(s)
		require.Equal(t, "old words", f.store.found(s))
	}
	f.Heal()
	f.Rename(s, "again")
	f.sync()
	require.Equal(t, "new words", f.store.text(s))
}

// Its text is where its target is, once that is synced itself.
func TestAShortcutThatFailedHasNoTextOnceItsTargetHasCome(t *testing.T) {
	f := newFixture(t)
	s, target := f.shortcutTo("old words")
	f.sync()
	f.Write(target, "new words, and many more of them")
	f.store.Refuses = full
	f.sync()
	f.Move(target, f.cfg.FolderID)
	f.store.Refuses = nil
	f.sync()
	require.Empty(t, f.store.text(s))
	require.Equal(t, "new words, and many more of them", f.store.text(target))
	f.again()
	require.Empty(t, f.store.put)
}

func TestASyncThatDiesWhileItLooksAtARefusedShortcutIsGoneOnWith(t *testing.T) {
	f := newFixture(t)
	s, target := f.shortcutTo("old words")
	f.sync()
	f.Write(target, "new words")
	f.store.Refuses = full
	f.sync()
	f.store.Refuses = nil
	for left := range 3 {
		dies := left
		f.store.dies = func() bool { dies--; return dies < 0 }
		_, _ = f.try()
		require.NotEmpty(t, f.store.found(s))
	}
	f.store.dies = nil
	f.sync()
	require.Equal(t, "new words", f.store.text(s))
	require.NotEqual(t, worker.Document{}, f.store.Docs()[s])
}

// many makes files for which there is no room.
func (f *fixture) many(n int) (ids []string) {
	for i := range n {
		ids = append(ids, f.File(root, fmt.Sprintf("k%d.txt", i), "text/plain", fmt.Sprint("words ", i)))
	}
	f.store.Refuses = full
	f.sync()
	return ids
}

// comesOnceThereIsRoom syncs until all is stored.
func (f *fixture) comesOnceThereIsRoom(ids []string) {
	f.t.Helper()
	f.store.Refuses = nil
	for range 40 {
		if f.sync(); len(f.store.put) == 0 {
			break
		}
	}
	for i, id := range ids {
		require.Equal(f.t, fmt.Sprint("words ", i), f.store.text(id))
	}
}

func TestWhatWasRefusedAndMayNotBeAskedForIsNotListedForThat(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	f.MaxPage = 100
	ids := f.many(1000)
	for _, id := range ids[:500] {
		f.Inject(fakedrive.NoPermission.On("get", 1<<30).Of(id), fakedrive.NoPermission.On("media", 1<<30).Of(id))
	}
	lists := 0
	for range 12 {
		if f.again().Pages > 5 {
			lists++
		}
		require.LessOrEqual(t, f.Calls("media"), 5*maxAgain)
		require.LessOrEqual(t, f.Calls("get"), 6*maxAgain)
	}
	require.Zero(t, lists, "where it is, is known")
	f.Heal()
	f.comesOnceThereIsRoom(ids)
}

// maxAgain is how many a sync tries.
const maxAgain = 100

func TestAFullQuotaDoesNotListEverythingForEachFolderThatGoes(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	f.MaxPage = 100
	ids := f.many(1000)
	lists := 0
	for n := range 12 {
		empty := f.Folder(root, fmt.Sprint("empty", n))
		f.again()
		f.Trash(empty, true)
		if f.again().Pages > 5 {
			lists++
		}
	}
	require.Zero(t, lists)
	f.comesOnceThereIsRoom(ids)
}

// What lies below a folder is known by where that is.
func TestAFolderThatWasGivenUpTakesNothingWithIt(t *testing.T) {
	f := newFixture(t)
	f.cfg = googledrive.Config{}
	dir := f.Folder(root, "Dir")
	sub := f.Folder(dir, "Sub")
	var below []string
	for i := range 20 {
		below = append(below, f.File(sub, fmt.Sprintf("b%d.txt", i), "text/plain", fmt.Sprint("below ", i)))
	}
	ids := f.many(500)
	f.comesOnceThereIsRoom(ids)
	f.edits(ids...)
	f.store.GiveUp(dir, sub)
	for n := range 4 {
		f.Rename(below[n], fmt.Sprint("renamed", n))
		f.sync()
		for i, id := range below {
			require.Equal(t, fmt.Sprint("below ", i), f.store.found(id))
		}
		require.Empty(t, f.store.deleted)
	}
	f.Delete(dir)
	f.sync()
	for _, id := range below {
		require.NotContains(t, f.store.Docs(), id)
	}
}

func TestAFolderThatWasGivenUpAndIsNotThereForAMomentKeepsWhatIsBelowIt(t *testing.T) {
	f := newFixture(t)
	dir := f.Folder(root, "Dir")
	below := f.File(dir, "below.txt", "text/plain", "below")
	f.sync()
	f.store.GiveUp(dir)
	f.Inject(fakedrive.Fault{Kind: "get", ID: dir, Times: 5, Status: http.StatusNotFound, Reason: "notFound"})
	f.sync()
	require.Equal(t, "below", f.store.text(below), "however often one sync asks")
	f.Heal()
	f.sync()
	f.again()
	require.Equal(t, "below", f.store.text(below))
	require.Empty(t, f.store.put)
}

// Who may read what is synced may not be who may read the folder where it is now.
func TestNothingIsStoredOfAFolderThatHasLeftAndWhoseDeletionWasGivenUp(t *testing.T) {
	f := newFixture(t)
	top, out := f.Folder(root, "Top"), f.Folder(root, "Out")
	f.cfg = googledrive.Config{FolderID: top}
	dir := f.Folder(top, "Dir")
	f.File(dir, "a.txt", "text/plain", "a")
	f.sync()
	f.Move(dir, out)
	f.store.GivesUp = never
	f.sync()
	f.store.GivesUp = nil
	secret := f.File(dir, "secret.txt", "text/plain", "secret")
	f.sync()
	require.NotContains(t, f.store.put, secret)
	require.Empty(t, f.store.Docs())
}

func TestAShortcutThatIsGoneAndWhoseDeletionWasGivenUpIsNotFollowed(t *testing.T) {
	f := newFixture(t)
	s, target := f.shortcutTo("words")
	f.sync()
	f.Delete(s)
	f.store.GivesUp = never
	f.sync()
	require.Contains(t, f.store.Docs(), s)
	f.store.GivesUp, f.store.Allows = nil, true // it is all there is
	f.Write(target, "other words")
	f.ResetCalls()
	f.sync()
	f.sync()
	require.NotContains(t, f.store.Docs(), s, "two syncs do not find it")
	require.Zero(t, f.Reads(target))
}
