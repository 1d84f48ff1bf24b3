package onedrive_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/fakereader"
)

func TestEveryFaultOnTheWayIsSurvived(t *testing.T) {
	for name, fault := range map[string]fakegraph.Fault{
		"throttled": fakegraph.Throttled, "unavailable": fakegraph.Unavailable, "broken": fakegraph.Broken,
		"gateway": fakegraph.BadGateway, "reset": fakegraph.Reset, "truncated": fakegraph.Truncated,
	} {
		for _, path := range []string{"/delta", "/download/", "/items/", "/children"} {
			t.Run(name+path, func(t *testing.T) {
				w := newWorld(t)
				w.fake.PageSize = 4
				folder := w.fake.Folder(w.root, "a")
				w.files(folder, 9)
				w.fake.Inject(fault.On(path, 3))
				w.sync()
				w.fake.Rename(folder, "b")
				w.sync()
				require.Empty(t, failures(w.sink))
				w.fake.Heal()
			})
		}
	}
}

func failures(s *workertest.Store) (all []string) {
	for _, d := range s.Docs() {
		if d.Err != "" {
			all = append(all, d.Err)
		}
	}
	return all
}

func TestADownloadGoesWithoutAuthorization(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 2)
	var mu sync.Mutex
	asked := 0
	w.fake.Before(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/download/") {
			asked++
			require.Empty(t, r.Header.Get("Authorization"))
		}
	})
	w.sync()
	require.Equal(t, 2, asked)
}

func TestAnExpiredURLIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 3)
	var once sync.Once
	w.fake.Before(func(r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/download/") {
			once.Do(w.fake.ExpireURLs)
		}
	})
	require.Equal(t, 3, w.sync().Put)
}

func TestAnItemThatVanishesBeforeItsDownloadGoesOnceItIsNotThereAgain(t *testing.T) {
	w := newWorld(t)
	ids := w.files(w.root, 3)
	w.sync()
	w.fake.Write(ids[0], "changed")
	extra := w.fake.File(w.root, "new.txt", "new")
	var once sync.Once
	w.fake.Before(func(r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/download/") {
			once.Do(func() {
				w.fake.Delete(ids[0])
				w.fake.Delete(extra)
			})
		}
	})
	r, err := w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, counts(source.Result{Listed: 2, Failed: 2}), r)
	require.Equal(t, 2, w.sync().Deleted)
}

func TestContentThatChangesBetweenListingAndDownloadIsStoredWithItsOwnVersion(t *testing.T) {
	w := newWorld(t)
	id := w.fake.File(w.root, "a.txt", "the first text")
	var once sync.Once
	w.fake.Before(func(r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/download/") {
			once.Do(func() { w.fake.Write(id, "a newer text") })
		}
	})
	w.sync()
	require.Equal(t, "a newer text", workertest.Text(w.sink.Docs()[id]))
	r := w.sync() // the delta reports what is known
	require.Equal(t, 1, r.Unchanged)
	require.Zero(t, r.Put)
}

func TestAFileWithoutPermissionFailsAloneAndIsReadOnceItIsGranted(t *testing.T) {
	w := newWorld(t)
	ids := w.files(w.root, 3)
	w.fake.Forbid(ids[1], true)
	r := w.sync()
	require.Equal(t, 1, r.Failed)
	require.Equal(t, []string{"no permission to read this file (accessDenied)"}, failures(w.sink))
	require.Equal(t, counts(source.Result{Unchanged: 1}), w.sync(), "the same failure is not stored again")
	w.fake.Forbid(ids[1], false)
	require.Equal(t, 1, w.sync().Put)
}

func TestAnItemThatCannotBeReadSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.cfg.MaxFileBytes = 100
	for name, c := range map[string]struct {
		content, reason string
		oddity          fakegraph.Oddity
	}{
		"virus.txt":    {"x", "malware was detected", fakegraph.Malware},
		"Notebook":     {"", "OneNote notebook", fakegraph.Notebook},
		"Shared":       {"", "shortcut to another drive", fakegraph.Shortcut},
		"photo.png":    {"x", "image/png holds no text", fakegraph.MediaType("image/png")},
		"large.txt":    {strings.Repeat("x", 101), "101 bytes, at most 100", nil},
		"program.bin":  {"\x00\x01", "binary content", nil},
		"readable.txt": {"text", "", nil},
	} {
		id := w.fake.File(w.root, name, c.content)
		if c.oddity != nil {
			w.fake.Set(id, c.oddity)
		}
		_, err := w.try(t.Context())
		require.NoError(t, err)
		require.Contains(t, w.sink.Docs()[id].Err, c.reason, name)
		require.Equal(t, c.reason == "", w.sink.Docs()[id].Err == "", name)
	}
	w.fake.Downloads()
	require.Equal(t, counts(source.Result{}), must(w.try(t.Context())))
	require.Empty(t, w.fake.Downloads(), "what will not change by itself is not read again")
}

func TestADocumentWhoseReaderWasKilledIsReadAgainAtTheNextSync(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 30)
	w.extract = fakereader.Killed{}
	r, err := w.try(t.Context())
	require.NoError(t, err, "however many there are")
	require.Equal(t, 30, r.Failed)
	require.Contains(t, failures(w.sink)[0], "its reader was killed")
	w.extract = fakereader.Plain{}
	require.Equal(t, 30, w.sync().Put)
}

func must(r onedrive.Result, err error) onedrive.Result {
	if err != nil {
		panic(err)
	}
	return r
}

func TestABodyThatIsNeverWholeFailsAsADocumentAndIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	ids := w.files(w.root, 3)
	w.fake.Inject(fakegraph.Truncated.On("/download/"+ids[0], 100))
	r, err := w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, r.Failed)
	require.Contains(t, w.sink.Docs()[ids[0]].Err, "as many bytes came")
	w.fake.Heal()
	require.Equal(t, 1, w.sync().Put)
}

func TestAFileThatIsRewrittenWhileItIsServedIsBelieved(t *testing.T) {
	w := newWorld(t)
	id := w.fake.File(w.root, "page.html", "a page that is served with three bytes more than listed")
	w.fake.Set(id, fakegraph.Rewritten)
	require.Equal(t, 1, w.sync().Put)
	require.Equal(t, map[string]int{id: 2}, w.fake.Downloads())
}

func TestThrottlingWithoutEndFailsTheSyncAndNoDocument(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 3)
	w.fake.Inject(fakegraph.Throttled.On("/download/", 1000))
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "activityLimitReached")
	require.NotErrorIs(t, err, worker.ErrPermanent)
	require.Empty(t, failures(w.sink))
	w.fake.Heal()
	w.sync()
}

func TestAServiceThatIsAwayEndsTheSyncInsteadOfFailingEveryDocument(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 100)
	afterTheListing := fakegraph.Broken.On("/items/", 100_000)
	afterTheListing.Skip = 1
	w.fake.Inject(fakegraph.Broken.On("/download/", 100_000), afterTheListing)
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "20 items in a row")
	require.NotErrorIs(t, err, worker.ErrPermanent)
	w.fake.Heal()
	w.sync()
}

// quotaSpent is an error about the account, as the client that keeps to the quota returns it.
type quotaSpent struct{}

func (quotaSpent) Error() string                                   { return "the account is told to wait for an hour" }
func (quotaSpent) EndsSync() bool                                  { return true }
func (quotaSpent) RoundTrip(*http.Request) (*http.Response, error) { return nil, quotaSpent{} }

func TestAnErrorAboutTheAccountEndsTheSyncAndFailsNoDocument(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 5)
	for _, opts := range []func(*onedrive.Options){
		func(o *onedrive.Options) { o.Plain = &http.Client{Transport: quotaSpent{}} },
		func(o *onedrive.Options) { o.API = &http.Client{Transport: quotaSpent{}} },
	} {
		o := w.options()
		opts(&o)
		_, err := onedrive.Sync(t.Context(), w.cfg, o, w.sink)
		require.ErrorAs(t, err, &quotaSpent{})
		require.NotErrorIs(t, err, worker.ErrPermanent)
		w.sink.Killed(false)
		require.Empty(t, failures(w.sink))
	}
	w.sync()
}
