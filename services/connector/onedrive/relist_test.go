//go:build !race

// One thing after another for minutes: there is no race to find.

package onedrive_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/testonly/fakegraph"
)

// as is try, for tests that want no result.
func (w *world) as() error {
	_, err := w.try(w.t.Context())
	return err
}

// onlyOf wants what is in a folder stored, and nothing else.
func (w *world) onlyOf(top string) {
	w.t.Helper()
	w.cfg.Item = top
	defer func() { w.cfg.Item = "" }()
	w.equal()
}

// refused has a listing refused that shows half of what is stored; then its owner allows it.
func (w *world) refused(files []string) {
	w.t.Helper()
	for _, f := range files[:len(files)/2] {
		w.fake.Delete(f)
	}
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	require.ErrorIs(w.t, w.as(), worker.ErrRelist)
	w.sink.Allows = true
}

func TestAFolderThatWasRenamedIsFollowedAlsoAfterARefusedListing(t *testing.T) {
	for _, takenByAnother := range []bool{false, true} {
		t.Run(fmt.Sprint("another has its name: ", takenByAnother), func(t *testing.T) {
			w := newWorld(t)
			top := w.fake.Folder(w.root, "Projects")
			w.cfg.Folder = "Projects"
			files := w.files(top, 60)
			require.NoError(t, w.as())
			w.fake.Rename(top, "Projects 2026")
			if takenByAnother {
				w.fake.File(w.fake.Folder(w.root, "Projects"), "private.txt", "the private text of somebody else")
			}
			require.NoError(t, w.as())
			w.onlyOf(top)
			w.refused(files)
			require.NoError(t, w.as())
			w.onlyOf(top)
		})
	}
}

func TestADriveThatIsAwayAfterARefusedListingIsNoMistakeOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	files := w.files(w.root, 60)
	require.NoError(t, w.as())
	for _, f := range files {
		w.fake.Revoke(f, true)
	}
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	err := w.as()
	require.ErrorIs(t, err, worker.ErrRelist)
	w.fake.Inject(fakegraph.Fault{Path: "/root", Times: 1, Status: http.StatusNotFound, Code: "itemNotFound"})
	err = w.as()
	require.Error(t, err)
	require.NotErrorIs(t, err, worker.ErrPermanent)
}

func TestAPageOfTheFirstListingThatIsNotThereIsNoMistakeOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 10
	w.files(w.root, 60)
	w.fake.Inject(fakegraph.Fault{Path: "/delta", Times: 1, Skip: 3, Status: http.StatusNotFound, Code: "itemNotFound"})
	err := w.as()
	require.Error(t, err)
	require.NotErrorIs(t, err, worker.ErrPermanent)
}

func TestAListingThatShowsNothingDoesNotChangeTheFolder(t *testing.T) {
	w := newWorld(t)
	top := w.fake.Folder(w.root, "Projects")
	w.cfg.Folder = "Projects"
	files := w.files(top, 12)
	require.NoError(t, w.as())
	w.fake.Rename(top, "Projects 2025")
	other := w.fake.Folder(w.root, "Projects")
	w.fake.File(other, "private.txt", "the private text of somebody else")
	require.NoError(t, w.as())
	w.onlyOf(top)
	for _, f := range files { // the account may see none for a moment
		w.fake.Revoke(f, true)
	}
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	err := w.as()
	require.ErrorIs(t, err, worker.ErrRelist)
	for _, f := range files {
		w.fake.Revoke(f, false)
	}
	require.NoError(t, w.as()) // by itself, nobody has allowed anything
	w.onlyOf(top)
}

type rewriting struct {
	next http.RoundTripper
	f    func(r *http.Request, page map[string]any)
}

func (c rewriting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(r.URL.Path, "/delta") {
		return resp, err
	}
	data, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	page := map[string]any{}
	if json.Unmarshal(data, &page) == nil {
		c.f(r, page)
		data, _ = json.Marshal(page)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	resp.Header.Del("Content-Length")
	return resp, nil
}

func TestAFolderThatIsRestoredWithinARoundKeepsItsFiles(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			w := newWorld(t)
			w.fake.PageSize = 2
			dir := w.fake.Folder(w.root, "dir")
			w.files(dir, 5)
			w.files(w.root, 6)
			require.NoError(t, w.as())
			for i := range 3 {
				w.fake.File(w.root, fmt.Sprintf("new %d.txt", i), "new")
			}
			w.fake.Rename(dir, "dir, restored") // the feed names it on its second page
			for i := range 6 {
				w.fake.File(w.root, fmt.Sprintf("newer %d.txt", i), "new")
			}
			page := 0
			opts := w.options()
			api := *opts.API
			api.Transport = rewriting{api.Transport, func(_ *http.Request, p map[string]any) {
				if page++; page == 1 {
					p["value"] = append(p["value"].([]any), map[string]any{"id": dir, "deleted": map[string]any{"state": "deleted"}})
				}
			}}
			opts.API = &api
			if dies {
				killed := errors.New("killed")
				w.sink.OnCheckpoint = func(n int) error {
					if page == 4 {
						return killed
					}
					return nil
				}
			}
			_, err := onedrive.Sync(t.Context(), w.cfg, opts, w.sink)
			w.sink.End(err)
			w.sink.OnCheckpoint = nil
			for range 3 {
				require.NoError(t, w.as())
			}
			require.Empty(t, w.differs())
		})
	}
}

func TestAFileWhoseFolderMayNotBeAskedForStays(t *testing.T) {
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprint("whole ", whole), func(t *testing.T) {
			w := newWorld(t)
			top := w.root
			if !whole {
				top = w.fake.Folder(w.root, "Top")
				w.cfg.Item = top
			}
			w.files(top, 3)
			a := w.fake.File(top, "a.txt", "the text of a")
			dir := w.fake.Folder(top, "dir")
			w.fake.Forbid(dir, true)
			require.NoError(t, w.as())
			w.fake.Move(a, dir)
			b := w.fake.File(dir, "b.txt", "the text of b")
			for range 4 {
				require.NoError(t, w.as())
				require.Contains(t, w.sink.Docs(), a)
			}
			require.Equal(t, whole, w.sink.Docs()[b].Err == "", "a whole drive has no outside")
			w.fake.Forbid(dir, false)
			w.sync()
		})
	}
}

func TestFilesOfAForbiddenFolderDoNotHoldUpOthers(t *testing.T) {
	for _, n := range []int{20, 250} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			top := w.fake.Folder(w.root, "Top")
			w.cfg.Item = top
			w.files(top, 3)
			dir := w.fake.Folder(top, "dir")
			require.NoError(t, w.as())
			w.fake.Forbid(dir, true)
			w.files(dir, n)
			require.NoError(t, w.as())
			f := w.fake.File(top, "f.txt", "the words of f")
			w.fake.Inject(fakegraph.Fault{Path: "/download/" + f, Times: 24, Status: 500})
			require.NoError(t, w.as())
			require.NotEmpty(t, w.sink.Docs()[f].Err)
			w.fake.Heal()
			for range 25 {
				require.NoError(t, w.as())
				if w.sink.Docs()[f].Err == "" {
					return
				}
			}
			t.Fatal("not read in 25 syncs: ", w.sink.Docs()[f].Err)
		})
	}
}

func TestAFolderThatIsRestoredUnderItsNameKeepsAFileThatWasNamedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 2
	dir := w.fake.Folder(w.root, "dir")
	files := w.files(dir, 5)
	w.files(w.root, 6)
	require.NoError(t, w.as())
	w.fake.Write(files[0], "changed words")
	for i := range 3 {
		w.fake.File(w.root, fmt.Sprintf("new %d.txt", i), "new")
	}
	w.fake.Move(dir, w.root) // it is named again, as it was
	for i := range 6 {
		w.fake.File(w.root, fmt.Sprintf("newer %d.txt", i), "new")
	}
	page := 0
	opts := w.options()
	api := *opts.API
	api.Transport = rewriting{api.Transport, func(_ *http.Request, p map[string]any) {
		if page++; page == 1 {
			p["value"] = append([]any{map[string]any{"id": dir, "deleted": map[string]any{"state": "deleted"}}}, p["value"].([]any)...)
		}
	}}
	opts.API = &api
	_, err := onedrive.Sync(t.Context(), w.cfg, opts, w.sink)
	w.sink.End(err)
	for range 3 {
		require.NoError(t, w.as())
	}
	require.Empty(t, w.differs())
}

func TestALibraryThatIsAwayLosesNothingBitByBit(t *testing.T) {
	w := newWorld(t)
	ids := w.files(w.root, 1500)
	w.sync()
	for _, id := range ids {
		w.fake.Write(id, "new words of "+id)
	}
	// every file, not the root and not the changes
	items := func(status int) {
		w.fake.Heal()
		for _, part := range []string{"/download/", "/content"} {
			w.fake.Inject(fakegraph.Fault{Path: part, Times: 1 << 30, Status: status, Code: "itemNotFound"})
		}
		for _, id := range ids {
			w.fake.Inject(fakegraph.Fault{Path: "/items/" + id, Times: 1 << 30, Status: status, Code: "itemNotFound"})
		}
	}
	items(http.StatusNotFound)
	one := func() {
		if _, err := w.try(t.Context()); !errors.Is(err, source.ErrDeletionsRefused) {
			require.NoError(t, err)
		}
	}
	one()
	one()
	items(http.StatusForbidden)
	one()
	items(http.StatusNotFound)
	for range 12 {
		one()
	}
	n := 0
	for _, d := range w.sink.Docs() {
		if workertest.Text(d) != "" {
			n++
		}
	}
	require.Equal(t, 1500, n)
}
