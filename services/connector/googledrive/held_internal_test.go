package googledrive

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/answer"
	"github.com/echomind/sync/services/connector/internal/fakedrive"
)

func TestOfANameThatIsCutNothingElseIsKept(t *testing.T) {
	whole := strings.Repeat("ä", 15_000) + ".docx"
	f := item{Name: whole, Link: strings.Repeat("x", worker.MaxURLBytes+1)}
	f.clip()
	require.LessOrEqual(t, len(f.Name), worker.MaxTitleBytes)
	require.True(t, strings.HasPrefix(f.Name, "ää") && strings.HasSuffix(f.Name, "ä.docx"), f.Name)
	require.NotSame(t, unsafe.StringData(whole), unsafe.StringData(f.Name))
	require.Empty(t, f.Link)
	f = item{Name: "a." + whole}
	f.clip()
	require.LessOrEqual(t, len(f.Name), worker.MaxTitleBytes)
	f = item{Name: "plan.docx", Link: "https://drive.example/1"}
	f.clip()
	require.Equal(t, item{Name: "plan.docx", Link: "https://drive.example/1"}, f)
}

// stored is a sink that stores all it is given.
type stored struct{ Sink }

func (stored) Put(context.Context, worker.Document) error { return nil }
func (stored) Delete(context.Context, string) error       { return nil }

// heldSyncer is one whose tree has a root.
func heldSyncer(bytes int) *syncer {
	s := &syncer{opts: Options{HeldBytes: bytes, PageSize: 1000}, sink: stored{}, fresh: map[string]struct{}{}, state: state{Roots: map[string]string{"": "root"}, Cursors: map[string]string{"": "1"}}}
	s.known = map[string]worker.Known{}
	s.begin()
	return s
}

func TestFoldersBelowNoRootAreNotHeld(t *testing.T) {
	s := heldSyncer(1)
	for i := range 1000 {
		f := item{ID: fmt.Sprint(i), Name: "foreign", MimeType: folderType, Parents: []string{fmt.Sprint(i / 2)}}
		require.NoError(t, s.changesPage(t.Context(), "", []change{{FileID: f.ID, File: &f}}))
	}
	require.Empty(t, s.tree.folders)
	require.Empty(t, s.come)
	require.Empty(t, s.changed)
	require.Empty(t, s.left)
	require.Zero(t, s.held)
}

func TestAFolderThatIsReportedAgainIsHeldOnce(t *testing.T) {
	s := heldSyncer(128 << 10)
	for range 100 {
		require.NoError(t, s.hold(t.Context(), item{ID: "a", Link: strings.Repeat("x", 64<<10), Parents: []string{"p"}}))
	}
	require.NoError(t, s.hold(t.Context(), item{ID: "a", Name: "last"}))
	require.Equal(t, "last", s.changed["a"].title)
	require.Equal(t, s.changed["a"].weight("a"), s.held)
	s.drop("a")
	require.Zero(t, s.held)
}

func TestOfAListingTheTreeKeepsWhatIsBelowARoot(t *testing.T) {
	fake := fakedrive.New()
	t.Cleanup(fake.Close)
	own := fake.Folder(fakedrive.Root, "own")
	for range 20 {
		fake.Folder("", "foreign")
	}
	for name, bytes := range map[string]int{"with room": 1 << 20, "without": 2000} {
		s := heldSyncer(bytes)
		s.state.Roots[""] = fakedrive.Root
		s.tree = newTree([]string{fakedrive.Root})
		s.api = &api{base: fake.URL, client: fake.Client(), calls: func() {}}
		require.NoError(t, s.listFolders(t.Context(), ""), name)
		require.Equal(t, map[string][]string{own: {fakedrive.Root}}, s.tree.folders, name)
		require.Zero(t, s.held, name)
	}
}

func TestTargetsAreHeldWhileThereIsRoom(t *testing.T) {
	one := item{ID: "target", Name: strings.Repeat("n", 100)}
	s := heldSyncer(one.weight())
	s.isTarget["target"], s.isTarget["other"] = true, true
	for range 3 {
		s.tell("target", &one)
		require.Equal(t, one, s.targets["target"])
		require.Equal(t, one.weight(), s.held)
	}
	s.tell("other", &one)
	require.Equal(t, item{}, s.targets["other"], "it is told of, and asked for")
	require.Equal(t, one.weight(), s.held)
	s.tell("target", nil)
	require.Zero(t, s.held)
	s.tell("other", &one)
	require.Equal(t, one, s.targets["other"])
}

func TestShortcutsAreHeldWhileThereIsRoom(t *testing.T) {
	shortcut := func(id, key string) entry {
		f := item{ID: id, Name: "shortcut", MimeType: shortcutType, MD5: "not needed", Parents: []string{"root"}}
		f.Shortcut.Target, f.Shortcut.TargetKey = "target", key
		return entry{id: id, kind: aShortcut, target: "target", item: &f, source: &f}
	}
	s := heldSyncer(DefaultHeldBytes)
	e := s.holdShortcut(shortcut("a", "0-key"))
	require.Equal(t, "0-key", e.item.Shortcut.TargetKey)
	require.Equal(t, e, s.shortcuts["a"])
	require.Empty(t, e.item.MD5, "no more than is needed")
	require.Equal(t, e.item.weight(), s.held)
	s.opts.HeldBytes = s.held
	s.holdShortcut(shortcut("a", "0-key"))
	require.NotNil(t, s.shortcuts["a"].item, "in the place of what it was before")
	e = s.holdShortcut(shortcut("b", ""))
	require.NotNil(t, e.item)
	require.Nil(t, s.shortcuts["b"].item, "there is no room for it")
	require.NoError(t, s.remove(t.Context(), "a"))
	require.NoError(t, s.remove(t.Context(), "b"))
	require.Zero(t, s.held)
	require.Empty(t, s.shortcuts)
	for _, key := range []string{strings.Repeat("k", maxIDBytes+1), "a/b"} {
		require.Empty(t, s.holdShortcut(shortcut("c", key)).item.Shortcut.TargetKey)
	}
}

func TestOfAPageEachItemIsCut(t *testing.T) {
	long := strings.Repeat("n", 5000)
	for path, into := range map[string]interface{ Stream(*answer.Decoder) error }{
		`{"files":[{"id":"a","name":"` + long + `"}]}`:                           &page{},
		`{"changes":[{"fileId":"b"},{"file":{"id":"a","name":"` + long + `"}}]}`: &feed{},
	} {
		require.NoError(t, answer.Decode(strings.NewReader(path), limits, into))
		switch p := into.(type) {
		case *page:
			require.Len(t, p.Files[0].Name, worker.MaxTitleBytes)
		case *feed:
			require.Len(t, p.Changes[1].File.Name, worker.MaxTitleBytes)
		}
	}
}

// What is shared by its link is opened by a key that only the shortcut has.
func TestTheKeyOfAShortcutThatIsNotHeldIsAskedFor(t *testing.T) {
	drive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/files/s"):
			_, _ = fmt.Fprint(w, `{"id":"s","shortcutDetails":{"targetId":"t","targetResourceKey":"0-key"}}`)
		case r.Header.Get("X-Goog-Drive-Resource-Keys") == "t/0-key":
			_, _ = fmt.Fprint(w, `{"id":"t","name":"target"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(drive.Close)
	s := heldSyncer(1)
	s.api = &api{base: drive.URL, client: drive.Client(), calls: func() {}}
	target, err := s.targetOf(t.Context(), entry{id: "s", kind: aShortcut, target: "t"})
	require.NoError(t, err)
	require.Equal(t, item{ID: "t", Name: "target", key: "0-key"}, target)
}
