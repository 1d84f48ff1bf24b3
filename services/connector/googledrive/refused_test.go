package googledrive_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/connector/internal/fakedrive"
)

// full refuses everything, as the quota of an owner does who has no room left.
func full() bool { return true }

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
	for _, e := range f.store.journal.entries {
		if e.id == id && e.doc != nil {
			require.NotEmpty(f.t, e.doc.Chunks, "%+v", e.doc)
		}
	}
}

func TestAShortcutThatIsRefusedKeepsItsText(t *testing.T) {
	f := newFixture(t)
	s, target := f.shortcutTo("old words")
	f.sync()
	f.Write(target, "new words, and many more of them")
	f.store.refuses = full
	for range 3 {
		f.store.open()
		f.sync()
		f.neverLoses(s)
		require.Equal(t, "old words", f.store.found(s))
	}
	f.Rename(s, "renamed")
	f.ExpireTokens()
	f.store.open()
	f.sync()
	f.neverLoses(s)
	require.Equal(t, "renamed", f.store.docs[s].Title)
	f.store.refuses, f.store.journal = nil, nil
	f.sync()
	require.Equal(t, "new words, and many more of them", f.store.text(s))
	require.Equal(t, "renamed", f.store.docs[s].Title)
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
		f.store.open()
		f.sync()
		f.neverLoses(s)
		require.Equal(t, "old words", f.store.found(s))
	}
	f.Heal()
	f.store.journal = nil
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
	f.store.refuses = full
	f.sync()
	f.Move(target, f.cfg.FolderID)
	f.store.refuses = nil
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
	f.store.refuses = full
	f.sync()
	f.store.refuses = nil
	for left := range 3 {
		dies := left
		f.store.dies = func() bool { dies--; return dies < 0 }
		_, _ = f.try()
		require.NotEmpty(t, f.store.found(s))
	}
	f.store.dies = nil
	f.sync()
	require.Equal(t, "new words", f.store.text(s))
	require.NotEqual(t, worker.Document{}, f.store.docs[s])
}
