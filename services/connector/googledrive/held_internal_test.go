package googledrive

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/internal/answer"
	"github.com/echomind/sync/testonly/fakedrive"
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

// lister is a source that does one thing.
type lister func(ctx context.Context, sync *source.Sync) (any, error)

func (l lister) List(ctx context.Context, sync *source.Sync) (any, error) { return l(ctx, sync) }

// within does something within a sync of what is below a root.
func within(t *testing.T, heldBytes int, api *api, store *workertest.Store, do func(ctx context.Context, s *syncer) error) {
	t.Helper()
	s := &syncer{opts: Options{HeldBytes: heldBytes, PageSize: 1000, Workers: 1, OwnerAlone: true}, store: store, api: api}
	s.cursor = cursor{Roots: map[string]string{"": fakedrive.Root}, Cursors: map[string]string{"": "1"}}
	_, err := source.Run(t.Context(), store, lister(func(ctx context.Context, sync *source.Sync) (any, error) {
		s.sync = sync
		s.beginRound()
		return &s.cursor, do(ctx, s)
	}), source.Options{})
	require.NoError(t, err)
}

func TestFoldersBelowNoRootAreNotHeld(t *testing.T) {
	store := workertest.New()
	within(t, 1, nil, store, func(ctx context.Context, s *syncer) error {
		for i := range 1000 {
			f := item{ID: fmt.Sprint(i), Name: "foreign", MimeType: folderType, Parents: []string{fmt.Sprint(i / 2)}}
			require.NoError(t, s.applyPage(ctx, "", []change{{FileID: f.ID, File: &f}}))
		}
		require.Empty(t, s.tree.folders)
		require.Empty(t, s.toList)
		require.False(t, s.detached)
		return nil
	})
	require.Empty(t, store.IDs())
}

func TestOfAListingTheTreeKeepsWhatIsBelowARoot(t *testing.T) {
	fake := fakedrive.New()
	t.Cleanup(fake.Close)
	own := fake.Folder(fakedrive.Root, "own")
	for range 20 {
		fake.Folder("", "foreign")
	}
	for name, bytes := range map[string]int{"with room": 1 << 20, "without": 2000} {
		within(t, bytes, &api{base: fake.URL, client: fake.Client(), calls: func() {}}, workertest.New(), func(ctx context.Context, s *syncer) error {
			require.NoError(t, s.listFolders(ctx, ""), name)
			require.Equal(t, map[string][]string{own: {fakedrive.Root}}, s.tree.folders, name)
			return nil
		})
	}
}

func TestWhatIsRememberedOfAShortcutHasItsBounds(t *testing.T) {
	id := func(i int) string { return strings.Repeat("\u2028", maxIDBytes/3-1) + fmt.Sprintf("%03d", i) }
	for name, of := range map[string]struct {
		name, link, key string
		named           bool
	}{
		"as long as may be":      {strings.Repeat("<", maxOwn-20), strings.Repeat("&", 16), "0key", true},
		"longer":                 {strings.Repeat("n", maxOwn+1), "", "0key", false},
		"a key that is none":     {"plan", "https://drive.example/1", "a/b", true},
		"a key that is too long": {"plan", "https://drive.example/1", strings.Repeat("k", maxIDBytes+1), true},
	} {
		f := item{ID: "shortcut", MimeType: shortcutType, Name: of.name, Link: of.link}
		f.Shortcut.Target, f.Shortcut.TargetKey = id(0), of.key
		for i := range 100 {
			f.Parents = append(f.Parents, id(i))
		}
		f.Parents = append(f.Parents, fakedrive.Root)
		store := workertest.New()
		within(t, 1, nil, store, func(ctx context.Context, s *syncer) error {
			require.NoError(t, s.files(ctx, []item{f}, false))
			stored, is := s.sync.Stored("shortcut")
			require.True(t, is, name)
			m := memoOf(stored)
			require.LessOrEqual(t, len(stored.Memo), worker.MaxMemoBytes)
			require.Len(t, m.Parents, maxParents)
			require.Contains(t, m.Parents, fakedrive.Root, "what is below a root comes first")
			require.Equal(t, of.named, m.Name == of.name && m.Link == of.link)
			require.Equal(t, of.named, m.Name != "")
			require.Equal(t, of.key == "0key" && of.named, m.Key != "")
			return nil
		})
	}
}

func TestOfAPageEachItemIsCut(t *testing.T) {
	long := strings.Repeat("n", 5000)
	text := `{"files":[{"id":"a","name":"` + long + `"}],"changes":[{"fileId":"b"},{"file":{"id":"a","name":"` + long + `"}}]}`
	var p page
	require.NoError(t, answer.Decode(strings.NewReader(text), limits, &p))
	require.Len(t, p.Files[0].Name, worker.MaxTitleBytes)
	require.Len(t, p.Changes[1].File.Name, worker.MaxTitleBytes)
}

// What is shared by its link is opened by a key that only the shortcut has.
func TestTheKeyOfAShortcutThatIsNotRememberedIsAskedFor(t *testing.T) {
	drive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/files/s"):
			_, _ = fmt.Fprint(w, `{"id":"s","name":"own","shortcutDetails":{"targetId":"t","targetResourceKey":"0-key"}}`)
		case r.Header.Get("X-Goog-Drive-Resource-Keys") == "t/0-key":
			_, _ = fmt.Fprint(w, `{"id":"t","name":"target","mimeType":"image/png"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(drive.Close)
	store := workertest.New()
	memo := fmt.Sprintf(`{"k":"s","p":[%q],"t":"t"}`, fakedrive.Root)
	store.Seed(worker.Document{SourceID: "s", VersionToken: "v", ContentHash: "none", Memo: json.RawMessage(memo)})
	within(t, 1, &api{base: drive.URL, client: drive.Client(), calls: func() {}}, store, func(ctx context.Context, s *syncer) error {
		return s.shortcuts(ctx, maxLooks)
	})
	require.Equal(t, "own", store.Docs()["s"].Title)
	require.Contains(t, store.Docs()["s"].Err, "image/png holds no text", "the target was opened")
}
