//go:build !race

package crawl_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
)

// validated serves html with validators and answers conditional requests.
func validated(html string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(html)))
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		if r.Header.Get("If-None-Match") == w.Header().Get("ETag") && r.Header.Get("If-Modified-Since") == w.Header().Get("Last-Modified") {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(html))
	}
}

func TestASecondCrawlWithNothingChangedCallsOnlyUnchanged(t *testing.T) {
	s := newSite(t).on("/", validated("<title>home</title><main>home</main><a href=/a><a href=/old>")).
		on("/a", validated("<main>A</main><a href=/b>")).page("/b", "B without validators", "/c").page("/c", "C").
		redirect("/old", "/new", 301).on("/new", validated("<main>new</main>"))
	st := newStore()
	crawlOK(t, s, st)
	require.Len(t, st.put, 5)
	require.Equal(t, `{"etag":"\"60\"","modified":"Fri, 02 Jan 2026 03:04:05 GMT"}`, st.docs[s.URL+"/"].VersionToken)
	for range 2 {
		res := crawlOK(t, s, st)
		require.Equal(t, 5, st.unchanged)
		require.Empty(t, st.put)
		require.Empty(t, st.touched)
		require.Empty(t, st.deleted)
		require.Equal(t, crawl.Result{Start: s.URL + "/", Unchanged: 5}, res)
	}
}

func TestAChangedPageIsTheOnlyOneStored(t *testing.T) {
	s := newSite(t).on("/", validated("<main>home</main><a href=/a><a href=/b>")).on("/a", validated("<main>A</main>")).page("/b", "B")
	st := newStore()
	crawlOK(t, s, st)
	s.on("/a", validated("<main>A, second edition</main>"))
	crawlOK(t, s, st)
	require.Equal(t, []string{"/a"}, paths(s, st.put))
	require.Equal(t, 2, st.unchanged)
	require.Empty(t, st.deleted)
}

func TestBoilerplateThatChangesIsNoChange(t *testing.T) {
	n := 0
	s := newSite(t).on("/", func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
		_, _ = fmt.Fprintf(w, "<main>home</main><footer>request %d</footer>", n)
	})
	st := newStore()
	crawlOK(t, s, st)
	crawlOK(t, s, st)
	require.Equal(t, 1, st.unchanged)
	require.Empty(t, st.put)
	require.Empty(t, st.touched)
}

func TestLinksThatChangeAloneTouchTheDocument(t *testing.T) {
	s := newSite(t).page("/", "home", "/a", "/b").page("/a", "A").page("/b", "B").page("/c", "C")
	st := newStore()
	crawlOK(t, s, st)
	s.page("/", "home", "/b", "/a")
	crawlOK(t, s, st)
	require.Empty(t, st.touched, "another order is no change")
	s.page("/", "home", "/b", "/a", "/c")
	res := crawlOK(t, s, st)
	require.Equal(t, []string{"/"}, paths(s, st.touched))
	require.Equal(t, []string{"/c"}, paths(s, st.put))
	require.Equal(t, 1, res.Touched)
	require.Equal(t, "home", st.text(s.URL+"/"))
	crawlOK(t, s, st)
	require.Equal(t, 4, st.unchanged)
}

func TestAPageThatIsGoneIsDeleted(t *testing.T) {
	for _, code := range []int{404, 410} {
		s := newSite(t).page("/", "home", "/a", "/b").page("/a", "A").page("/b", "B")
		st := newStore()
		crawlOK(t, s, st)
		s.status("/a", code)
		res := crawlOK(t, s, st)
		require.Equal(t, []string{"/a"}, paths(s, st.deleted))
		require.Equal(t, 1, res.Deleted)
		require.Empty(t, st.put)
	}
}

func TestADeadLinkIsNoDocument(t *testing.T) {
	s := newSite(t).page("/", "home", "/missing")
	st := newStore()
	crawlOK(t, s, st)
	require.Equal(t, []string{"/"}, st.ids(s))
	require.Empty(t, st.deleted)
}

func TestAPageThatNoLinkLeadsToAnyMoreIsDeleted(t *testing.T) {
	s := newSite(t).page("/", "home", "/a").page("/a", "A", "/b").page("/b", "B")
	st := newStore()
	crawlOK(t, s, st)
	s.page("/a", "A")
	crawlOK(t, s, st)
	require.Equal(t, []string{"/b"}, paths(s, st.deleted))
}

func TestAPageThatMovedIsStoredUnderItsNewAddress(t *testing.T) {
	s := newSite(t).page("/", "home", "/a").page("/a", "A")
	st := newStore()
	crawlOK(t, s, st)
	s.redirect("/a", "/b", 301).page("/b", "A")
	crawlOK(t, s, st)
	require.Equal(t, []string{"/b"}, paths(s, st.put))
	require.Equal(t, []string{"/a"}, paths(s, st.deleted))
}

func TestAFailingPageIsStoredWithItsReasonAndItsSubtreeStays(t *testing.T) {
	s := newSite(t).page("/", "home", "/hub").page("/hub", "hub", "/a").page("/a", "A", "/b").page("/b", "B")
	st := newStore()
	crawlOK(t, s, st)
	for _, status := range []int{500, 502, 503} {
		s.status("/hub", status)
		res := crawlOK(t, s, st)
		require.Equal(t, []string{"/hub"}, paths(s, st.put))
		require.Empty(t, st.deleted)
		require.Equal(t, 1, res.Failed)
		require.Equal(t, 3, st.unchanged)
		doc := st.docs[s.URL+"/hub"]
		require.Contains(t, doc.Err, fmt.Sprintf("GET %s/hub answered %d ", s.URL, status))
		require.Equal(t, []string{s.URL + "/a"}, doc.Links)
		require.Empty(t, doc.VersionToken)
	}
	s.page("/hub", "hub", "/a")
	crawlOK(t, s, st)
	require.Equal(t, []string{"/hub"}, paths(s, st.put), "a page that failed is fetched and stored again")
	require.Empty(t, st.docs[s.URL+"/hub"].Err)
}

func TestAPageThatFailsForTheSameReasonAgainIsUnchanged(t *testing.T) {
	s := newSite(t).on("/", validated("<main>home</main><a href=/broken>")).status("/broken", 500)
	st := newStore()
	crawlOK(t, s, st)
	require.Contains(t, paths(s, st.put), "/broken")
	crawlOK(t, s, st) // it is not new any more
	res := crawlOK(t, s, st)
	require.Empty(t, st.put)
	require.Equal(t, 2, res.Unchanged)
	s.status("/broken", 502)
	crawlOK(t, s, st)
	require.Equal(t, []string{"/broken"}, paths(s, st.put))
}

func TestEveryWayToFailIsAReason(t *testing.T) {
	s := newSite(t).page("/", "home", "/403", "/500", "/204", "/big", "/pdf", "/video", "/brotli", "/loop", "/304", "/slow", "/cut", "/deep")
	s.status("/403", 403).status("/500", 500).status("/204", 204).status("/304", 304)
	s.on("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20+1)) })
	s.on("/pdf", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/pdf")
		_, _ = w.Write([]byte("%PDF-1.7"))
	})
	s.on("/video", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		_, _ = w.Write(make([]byte, 4096))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s.on("/brotli", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "br") })
	s.redirect("/loop", "/loop2", 302).redirect("/loop2", "/loop", 302)
	s.on("/slow", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("still coming "))
			w.(http.Flusher).Flush()
		}
	})
	s.on("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("short"))
		panic(http.ErrAbortHandler)
	})
	s.html("/deep", deepHTML())
	st := newStore()
	res := crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) {
		o.RequestTimeout, o.MaxBodyBytes = 2*time.Second, 1<<20
	})
	want := map[string]string{
		"/403":    "answered 403 Forbidden",
		"/500":    "answered 500 Internal Server Error",
		"/204":    "answered 204 No Content",
		"/304":    "answered 304 Not Modified",
		"/big":    "body is longer than 1048576 bytes",
		"/pdf":    "unsupported content application/pdf",
		"/video":  "unsupported content type video/mp4",
		"/brotli": "unsupported content encoding br",
		"/loop":   "they lead back to",
		"/cut":    "EOF",
		"/deep":   "exceeds 512 nodes",
	}
	for path, reason := range want {
		require.Contains(t, st.docs[s.URL+path].Err, reason, path)
	}
	require.NotEmpty(t, st.docs[s.URL+"/slow"].Err)
	require.Equal(t, len(want)+1, res.Failed)
	require.Empty(t, st.docs[s.URL+"/"].Err)
}

func TestABodyThatNeverEndsFailsItsPageInTime(t *testing.T) {
	s := newSite(t).page("/", "home", "/slow").on("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("begun"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	st := newStore()
	crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) { o.RequestTimeout = 300 * time.Millisecond })
	require.Equal(t, "GET "+s.URL+"/slow: crawl.fetch: no complete answer within 300ms", st.docs[s.URL+"/slow"].Err)
}

func TestASiteThatStopsAnsweringEndsTheCrawlForNow(t *testing.T) {
	var hrefs []string
	s := newSite(t)
	for i := range 30 {
		hrefs = append(hrefs, fmt.Sprintf("/%d", i))
		s.page(fmt.Sprintf("/%d", i), fmt.Sprint(i))
	}
	s.page("/", "home", hrefs...)
	st := newStore()
	crawlOK(t, s, st)
	for _, h := range hrefs {
		s.on(h, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}
	for name, down := range map[string]http.HandlerFunc{
		"503":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"500":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s.page("/", "home", hrefs[1:]...).onceThen("/", down)
		_, err := crawlSite(t, s, st, func(_ *crawl.Config, o *crawl.Options) { o.MaxSilence = 5 })
		require.NotErrorIs(t, err, worker.ErrPermanent, name)
		require.ErrorContains(t, err, "5 pages in a row gave no answer")
		require.Empty(t, st.deleted)
		require.Equal(t, map[string]int{"503": 5, "500": 2, "no answer": 2}[name], s.requests("/"), name) // 503: requested again, as any page
	}
}

func TestAStartPageThatAsksToComeBackLaterIsNoSiteThatIsDown(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		s := newSite(t)
		var hrefs []string
		for i := range 10 {
			dead := fmt.Sprint("/dead", i)
			hrefs = append(hrefs, dead)
			s.on(dead, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}
		hrefs = append(hrefs, "/page")
		s.page("/page", "page")
		home := anchors(hrefs...)
		var asked atomic.Int32
		s.on("/", func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1)%2 == 0 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(code)
				return
			}
			raw("text/html", []byte("<title>home</title><main>home</main>"+home))(w, r)
		})
		st, clk := newStore(), newClock()
		crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) { o.MaxSilence, o.Now, o.Wait = 5, clk.Now, clk.Wait })
		require.Empty(t, st.docs[s.URL+"/page"].Err)
		require.Contains(t, st.docs, s.URL+"/page")
	}
}

// The error of a broken connection names its ports.
func TestAConnectionThatBreaksOffFailsItsPageOnce(t *testing.T) {
	s := newSite(t).page("/", "home", "/a").on("/a", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	})
	st := newStore()
	crawlOK(t, s, st)
	why := st.docs[s.URL+"/a"].Err
	require.Contains(t, why, "connection reset by peer")
	for range 3 {
		require.Zero(t, crawlOK(t, s, st).Failed)
		require.Equal(t, why, st.docs[s.URL+"/a"].Err)
	}
}

func TestNoETagMakesATokenThatIsTooLong(t *testing.T) {
	for _, n := range []int{256, 257, 512} {
		s := newSite(t).status("/robots.txt", 404)
		s.on("/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", strings.Repeat("<", n))
			w.Header().Set("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, "<main>home</main>")
		})
		st := newStore()
		crawlOK(t, s, st)
		require.Less(t, len(st.docs[s.URL+"/"].VersionToken), worker.MaxTokenBytes)
		require.Equal(t, n <= 256, strings.Contains(st.docs[s.URL+"/"].VersionToken, "etag"))
	}
}

// Each page fails alone, and pages that the site has withdrawn are deleted.
func TestLinksThatAreDeadDoNotMakeASiteLookDown(t *testing.T) {
	for name, dead := range map[string]http.HandlerFunc{
		"503":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"429":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		hrefs := []string{"/good"}
		s := newSite(t).page("/good", "good").page("/old", "withdrawn").page("/last", "last")
		for i := range 12 {
			path := fmt.Sprint("/dead", i)
			hrefs = append(hrefs, path)
			s.on(path, dead)
		}
		hrefs = append(hrefs, "/last")
		s.on("/", validated("<main>home</main><a href=/old>"+anchors(hrefs...)))
		st, five := newStore(), func(_ *crawl.Config, o *crawl.Options) { o.MaxSilence = 5 }
		crawlOK(t, s, st, five)
		require.Contains(t, st.docs, s.URL+"/last", name)
		require.Equal(t, 3, s.requests("/"), "%s: once more for each five that are silent", name)
		s.page("/", "home", hrefs...)
		res := crawlOK(t, s, st, five)
		require.Equal(t, []string{"/old"}, paths(s, st.deleted), name)
		require.Zero(t, res.Held)
	}
}
