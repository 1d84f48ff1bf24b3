package googledrive_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/fakedrive"
)

func TestAShortcutStandsForATargetThatIsElsewhere(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	outside := f.File(root, "outside.txt", "text/plain", "words from elsewhere")
	one := f.Shortcut(top, "first", outside)
	two := f.Shortcut(top, "second", outside)
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	require.Equal(t, "words from elsewhere", f.store.text(one))
	require.Equal(t, "first", f.store.Docs()[one].Title)
	require.Empty(t, f.store.text(two), "a target is stored once")
	require.Equal(t, 1, f.Reads(outside))

	f.again()
	require.Equal(t, 2, f.Calls(), "the changes, and a look at the target: its own changes may be in another feed")

	f.Write(outside, "other words")
	f.again()
	require.Equal(t, "other words", f.store.text(one))
	f.Delete(one)
	f.again()
	require.Equal(t, "other words", f.store.text(two))
}

// A user who puts a shortcut into a folder that others read may lead to what the connected account alone may open.
// A long name is not remembered: the shortcut is asked for it.
func TestAShortcutWithALongNameStandsForItsTargetToo(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	target := f.File(root, "target.txt", "text/plain", "words")
	name := strings.Repeat("long ", 150) + "name"
	s := f.Shortcut(top, name, target)
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	require.Equal(t, "words", f.store.text(s))
	f.Write(target, "other words")
	f.sync()
	require.Equal(t, "other words", f.store.text(s))
	require.Equal(t, name, f.store.Docs()[s].Title)
	f.Move(target, top)
	f.sync()
	require.Empty(t, f.store.text(s))
	f.again()
	require.Empty(t, f.store.put)
}

func TestAShortcutLeadsReadersToNothingElsewhere(t *testing.T) {
	f := newFixture(t)
	f.opts.OwnerAlone = false
	shared, private, team := f.Folder(root, "Shared"), f.Folder(root, "Private"), f.Drive("Team")
	salaries := f.File(private, "salaries.txt", "text/plain", "salaries")
	plan := f.File(shared, "plan.txt", "text/plain", "the plan")
	elsewhere := []string{
		f.Shortcut(shared, "one", salaries), f.Shortcut(f.Folder(shared, "Sub"), "two", salaries), f.Shortcut(shared, "folder", private),
		f.Shortcut(shared, "team", f.File(team, "t.txt", "text/plain", "the team's")), f.Shortcut(shared, "gone", "nothing"),
	}
	inside, top := f.Shortcut(shared, "inside", plan), f.Shortcut(shared, "top", shared)
	f.cfg = googledrive.Config{FolderID: shared}
	f.ResetCalls()
	f.sync()
	for _, id := range elsewhere {
		require.Contains(t, f.store.text(id), "is not among what this connector syncs, and its readers may have no right to read it")
	}
	require.Zero(t, f.Reads(salaries))
	require.Empty(t, f.store.text(inside))
	require.Contains(t, f.store.text(top), "shortcut to a folder")
	f.again()
	require.Empty(t, f.store.put)
	require.Equal(t, 2, f.Calls(), "the changes, and a look at the root that a shortcut leads to; what is elsewhere is not even looked at")

	f.Move(plan, private)
	f.sync()
	require.Contains(t, f.store.text(inside), "is not among what this connector syncs", "the target has left")
	f.Move(salaries, shared)
	f.sync()
	require.Equal(t, "salaries", f.store.text(salaries))
	require.Empty(t, f.store.text(elsewhere[0]), "the target has come")
	f.Move(salaries, private)
	f.sync()
	require.Contains(t, f.store.text(elsewhere[0]), "is not among what this connector syncs")
}

func TestAShortcutInADriveOfATeamLeadsReadersToNothingOfTheAccounts(t *testing.T) {
	f := newFixture(t)
	f.opts.OwnerAlone = false
	team := f.Drive("Team")
	s := f.Shortcut(team, "notes", f.File(root, "mine.txt", "text/plain", "mine"))
	f.cfg = googledrive.Config{DriveID: team}
	f.sync()
	require.Contains(t, f.store.text(s), "is not among what this connector syncs")
}

// The scope of a connector is part of its configuration: what was stored under another is not known.
func TestAShortcutThatWasFollowedForItsOwnerIsNotKeptForOthers(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	s := f.Shortcut(top, "s", f.File(root, "mine.txt", "text/plain", "mine"))
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	require.Equal(t, "mine", f.store.text(s))
	f.opts.OwnerAlone = false
	f.sync()
	require.Contains(t, f.store.text(s), "is not among what this connector syncs")
}

func TestAShortcutToWhatIsSyncedAddsNothing(t *testing.T) {
	f := newFixture(t)
	top, away := f.Folder(root, "Top"), f.Folder(root, "Away")
	a := f.File(top, "a.txt", "text/plain", "a")
	s := f.Shortcut(top, "s", a)
	loop := f.Shortcut(f.Folder(top, "Sub"), "back to the top", top)
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	require.Empty(t, f.store.text(s))
	f.Move(a, away)
	f.sync()
	require.Equal(t, "a", f.store.text(s), "the target has left: the shortcut stands for it")
	f.Move(a, top)
	f.sync()
	require.Empty(t, f.store.text(s))
	require.Equal(t, "a", f.store.text(a))
	require.Contains(t, f.store.text(loop), "shortcut to a folder is not followed")
}

func TestAShortcutWhoseTargetIsGoneSaysSo(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	target := f.File(root, "t.txt", "text/plain", "t")
	s := f.Shortcut(top, "s", target)
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	f.Trash(target, true)
	f.sync()
	require.Contains(t, f.store.text(s), "is gone, or is not shared")
	f.again()
	require.Empty(t, f.store.put)
	f.Trash(target, false)
	f.sync()
	require.Equal(t, "t", f.store.text(s))
}

func TestShortcutsAreFollowedOnce(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	f.cfg = googledrive.Config{FolderID: top}
	away := f.Shortcut(root, "away", f.File(root, "a.txt", "text/plain", "a"))
	chain := f.Shortcut(top, "chain", away)
	folder := f.Shortcut(top, "folder", f.Folder(root, "Elsewhere"))
	image := f.Shortcut(top, "image", f.File(root, "i.png", "image/png", "png"))
	f.sync()
	require.Contains(t, f.store.text(chain), "shortcut to a shortcut")
	require.Contains(t, f.store.text(folder), "connector of that folder")
	require.Contains(t, f.store.text(image), "holds no text")
	f.Rename(chain, "renamed")
	f.sync()
	require.Equal(t, "renamed", f.store.Docs()[chain].Title)
	require.Contains(t, f.store.text(chain), "shortcut to a shortcut")
}

func TestFoldersInEachOtherAreNotEndless(t *testing.T) {
	f := newFixture(t)
	top := f.Folder(root, "Top")
	one := f.Folder(top, "One")
	two := f.Folder(one, "Two")
	f.File(two, "a.txt", "text/plain", "a")
	f.Move(one, top, two)
	f.cfg = googledrive.Config{FolderID: top}
	f.sync()
	require.Equal(t, []string{"a.txt"}, f.store.files())
	f.Move(one, two)
	f.sync()
	require.Empty(t, f.store.files())
	require.Empty(t, f.store.Docs())
}

func TestStrangeNamesAreStored(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"", " ", "a\x00b", "../../etc/passwd", "\u202egpj.exe", "\xff\xfe", "a/b\\c.txt", "'; drop table"} {
		f.File(root, name, "text/plain", "words")
	}
	r := f.sync()
	require.Equal(t, 8, r.Put)
	require.Contains(t, f.store.files(), "Untitled")
	require.Len(t, f.store.Docs(), 8)
	f.again()
	require.Equal(t, 1, f.Calls())
}

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	f := newFixture(t)
	f.cfg.MaxFileBytes = 100
	big := f.File(root, "big.txt", "text/plain", string(make([]byte, 101)))
	doc := f.Doc(root, "doc", fakedrive.DocumentType, string(make([]byte, 101)))
	fits := f.File(root, "fits.txt", "text/plain", "fits")
	f.sync()
	require.Contains(t, f.store.text(big), "101 bytes, at most 100 are read (max_file_bytes)")
	require.Contains(t, f.store.text(doc), "at most 100 are read (max_file_bytes)")
	require.Equal(t, "fits", f.store.text(fits))
	require.Zero(t, f.Reads(big))
}

func TestTooManyFilesFailTheSync(t *testing.T) {
	f := newFixture(t)
	f.cfg.MaxFiles = 3
	for range 6 {
		f.File(root, "a.txt", "text/plain", "a")
	}
	_, err := f.try()
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "max_files: there are more than 3")
}
