package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// fake is a wiki in memory.
type fake struct {
	mu       sync.Mutex
	pages    map[string]page
	changes  []string // ids, in order
	revision int64
	oldest   int64 // place in the changes that is still known
	answers  func(path string) int
	asked    []string
}

func newFake(t *testing.T) (*fake, config) {
	t.Helper()
	f := &fake{pages: map[string]page{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, config{URL: server.URL}
}

func (f *fake) write(id, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.pages[id] = page{ID: id, Title: "Page " + id, Path: "/wiki/" + id, Revision: f.revision, Text: text}
	f.changes = append(f.changes, id)
}

func (f *fake) remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pages, id)
	f.changes = append(f.changes, id)
}

const pageSize = 2

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.URL.Path)
	if f.answers != nil {
		if status := f.answers(r.URL.Path); status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
	}
	answer := map[string]any{}
	switch query := r.URL.Query(); r.URL.Path {
	case "/api/pages":
		listed := []page{}
		for _, id := range slices.Sorted(maps.Keys(f.pages)) {
			if id <= query.Get("after") {
				continue
			}
			if len(listed) == pageSize {
				answer["next"] = listed[pageSize-1].ID
				break
			}
			p := f.pages[id]
			p.Text = ""
			listed = append(listed, p)
		}
		answer["pages"] = listed
	case "/api/changes":
		since, err := strconv.ParseInt(query.Get("since"), 10, 64)
		if err != nil {
			since = int64(len(f.changes))
		}
		if since < f.oldest {
			w.WriteHeader(http.StatusGone)
			return
		}
		upTo := min(since+pageSize, int64(len(f.changes)))
		changes := []map[string]any{}
		for _, id := range f.changes[since:upTo] {
			change := map[string]any{"id": id}
			if p, is := f.pages[id]; is {
				p.Text = ""
				change["page"] = p
			}
			changes = append(changes, change)
		}
		answer["changes"], answer["next"] = changes, upTo
	default:
		p, is := f.pages[r.URL.Path[len("/api/pages/"):]]
		if !is {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(p)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func synced(t *testing.T, cfg config, store *workertest.Store) source.Result {
	t.Helper()
	result, err := syncTo(t.Context(), cfg, store, 1)
	require.NoError(t, err)
	store.Complete()
	return result
}

func TestPagesChangesAndDeletionsAreSynced(t *testing.T) {
	f, cfg := newFake(t)
	store := workertest.New()
	for i := range 5 {
		f.write(fmt.Sprint("p", i), fmt.Sprint("text ", i))
	}
	require.Equal(t, 5, synced(t, cfg, store).Put)
	f.write("p1", "changed")
	f.write("p9", "new")
	f.remove("p2")
	require.Equal(t, source.Result{Listed: 2, Put: 2, Deleted: 1}, synced(t, cfg, store))
	require.Equal(t, []string{"p0", "p1", "p3", "p4", "p9"}, store.IDs())
	require.Equal(t, "changed", workertest.Text(store.Docs()["p1"]))
	require.Equal(t, cfg.URL+"/wiki/p1", store.Docs()["p1"].URL)
	f.asked = nil
	require.False(t, synced(t, cfg, store).Changed())
	require.Equal(t, []string{"/api/changes"}, f.asked)
}

func TestAFirstSyncThatDiesGoesOnFromItsLastPage(t *testing.T) {
	f, cfg := newFake(t)
	store := workertest.New()
	for i := range 6 {
		f.write(fmt.Sprint("p", i), "text")
	}
	killed := errors.New("killed")
	store.OnCheckpoint = func(n int) error {
		if n == 3 {
			return killed
		}
		return nil
	}
	_, err := syncTo(t.Context(), cfg, store, 1)
	require.ErrorIs(t, err, killed)
	store.Killed(false)
	result := synced(t, cfg, store)
	require.Less(t, result.Listed, 6)
	require.Len(t, store.IDs(), 6)
}

func TestChangesThatDoNotGoBackSoFarHaveEverythingListed(t *testing.T) {
	f, cfg := newFake(t)
	store := workertest.New()
	for i := range 5 {
		f.write(fmt.Sprint("p", i), "text")
	}
	synced(t, cfg, store)
	f.remove("p0")
	f.write("p1", "changed")
	f.oldest = int64(len(f.changes))
	require.Equal(t, source.Result{Listed: 4, Put: 1, Unchanged: 3, Deleted: 1}, synced(t, cfg, store))
}

func TestAPageThatCannotBeReadIsTriedAgain(t *testing.T) {
	f, cfg := newFake(t)
	store := workertest.New()
	f.write("p0", "text")
	f.write("p1", "text")
	f.answers = func(path string) int {
		if path == "/api/pages/p1" {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
	require.Equal(t, 1, synced(t, cfg, store).Failed)
	require.Equal(t, "the wiki answered 500 Internal Server Error", store.Docs()["p1"].Err)
	f.answers = nil
	require.Equal(t, 1, synced(t, cfg, store).Put)
}

func TestAWikiThatDoesNotLetUsInIsForItsOwnerToMend(t *testing.T) {
	f, cfg := newFake(t)
	f.answers = func(string) int { return http.StatusUnauthorized }
	_, err := syncTo(t.Context(), cfg, workertest.New(), 1)
	require.ErrorIs(t, err, worker.ErrPermanent)
	f.answers = func(string) int { return http.StatusBadGateway }
	_, err = syncTo(t.Context(), cfg, workertest.New(), 1)
	require.Error(t, err)
	require.NotErrorIs(t, err, worker.ErrPermanent)
}

func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	for _, bad := range []string{"", "wiki.example.com", "ftp://wiki.example.com", "https://"} {
		require.ErrorContains(t, config{URL: bad}.Validate(), "url:")
	}
	require.NoError(t, config{URL: "https://wiki.example.com"}.Validate())
}
