//go:build !race

package crawl_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/chunker/crawl"
)

// copyOf serves a page that names another as canonical.
func (s *site) copyOf(path, text, named string) *site {
	return s.html(path, "<title>"+text+"</title><link rel=canonical href="+named+"><main>"+text+"</main>")
}

func TestAPageStandsForItselfWhereItsCanonicalOneFails(t *testing.T) {
	for name, fails := range map[string]func(s *site){
		"refused":    func(s *site) { s.status("/y", 403) },
		"loop":       func(s *site) { s.redirect("/y", "/z", 302).redirect("/z", "/y", 302) },
		"unreadable": func(s *site) { s.html("/y", "<main></main>") },
		"unanswered": func(s *site) { s.status("/y", 500) },
	} {
		for _, links := range [][]string{{"/x"}, {"/x", "/y"}, {"/y", "/x"}, {"/y", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9", "/x"}} {
			s, st := newSite(t), newStore()
			s.page("/", "home", links...).page("/x", "text of x").page("/y", "text of y")
			unreadable := func(_ *crawl.Config, o *crawl.Options) { o.Extract = failEmpty }
			fails(s)
			crawlOK(t, s, st, unreadable)
			require.Equal(t, "text of x", st.text(s.URL+"/x"), name)
			s.copyOf("/x", "text of x", "/y")
			for range 3 {
				crawlOK(t, s, st, unreadable)
				require.Equal(t, "text of x", st.text(s.URL+"/x"), "%s %v", name, links)
			}
			s.page("/y", "text of y")
			crawlOK(t, s, st, unreadable)
			require.Equal(t, []string{"/x"}, paths(s, st.deleted), "%s %v: it is read under its canonical address", name, links)
		}
	}
}

// A 304 would not repeat the canonical link.
func TestAPageThatStoodForItselfIsReadWholeUntilItsCanonicalOneStandsForIt(t *testing.T) {
	s, st := newSite(t).page("/", "home", "/x").status("/y", 403), newStore()
	s.on("/x", validated("<main>text of x</main><link rel=canonical href=/y>"))
	for range 2 {
		crawlOK(t, s, st)
		require.Equal(t, "text of x", st.text(s.URL+"/x"))
	}
	s.page("/y", "text of y")
	crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/y"}, st.ids(s))
}

// The stored document can be found all the while.
func TestACanonicalPageThatIsStoredStandsForOthersWhenItFails(t *testing.T) {
	s, st := newSite(t).page("/", "home", "/x").copyOf("/x", "text of x", "/y").page("/y", "text of y"), newStore()
	crawlOK(t, s, st)
	s.status("/y", 503)
	crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/y"}, st.ids(s))
	require.Equal(t, []string{"/y"}, paths(s, st.put))
}

func TestAPageThatIsStoredIsNotDeletedForACanonicalOneThatFails(t *testing.T) {
	for _, status := range []int{503, 403} {
		for _, named := range []string{"/y", "/new"} { // /new names /y in turn
			s, st := newSite(t).page("/", "home", "/x", "/y").page("/x", "text of x").page("/y", "text of y"), newStore()
			crawlOK(t, s, st)
			s.page("/", "home", "/x").copyOf("/x", "text of x", named).copyOf("/new", "text of y", "/y").status("/y", status)
			crawlOK(t, s, st)
			require.Empty(t, st.deleted)
			require.NotContains(t, st.docs, s.URL+"/new")
		}
	}
}

func TestACanonicalAddressThatRedirectsStandsForThosePagesThatNameIt(t *testing.T) {
	for name, named := range map[string]string{"itself": "/p/", "what led to it": "/p"} {
		for _, more := range []string{"/nothing", "/p", "/p/"} {
			s, st := newSite(t), newStore()
			s.page("/", "home", "/c1/p", "/c2/p", more, "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9", "/c3/p")
			for _, c := range []string{"/c1/p", "/c2/p", "/c3/p"} {
				s.copyOf(c, "product", "/p")
			}
			s.redirect("/p", "/p/", 301).copyOf("/p/", "product", named)
			for range 2 {
				crawlOK(t, s, st)
				require.Equal(t, []string{"/", "/p/"}, st.ids(s), "%s %s", name, more)
			}
		}
	}
}

// A response that does not last: a redirect to the page meets a 404, before or after the page itself answers.
func TestAPageThatWasDeletedOnTheWayIsStoredAgainWhenItAnswers(t *testing.T) {
	others := []string{"/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"}
	for name, order := range map[string][]string{
		"redirect first": append(append([]string{"/to-x"}, others...), "/x"),
		"page first":     append(append([]string{"/x"}, others...), "/to-x"),
		"side by side":   {"/to-x", "/x"},
	} {
		for _, etag := range []bool{false, true} {
			for _, concurrency := range []int{1, 4} {
				s, st := newSite(t), newStore()
				s.page("/", "home", order...).redirect("/to-x", "/x", 302)
				asked := make(chan struct{}, 1)
				s.on("/x", func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-asked:
						w.WriteHeader(http.StatusNotFound)
						return
					default:
					}
					if etag {
						validated("<main>text of x</main>")(w, r)
						return
					}
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					_, _ = fmt.Fprint(w, "<main>text of x</main>")
				})
				with := func(_ *crawl.Config, o *crawl.Options) { o.Concurrency = concurrency }
				crawlOK(t, s, st, with)
				asked <- struct{}{}
				crawlOK(t, s, st, with)
				require.Equal(t, "text of x", st.text(s.URL+"/x"), "%s, ETag %v, %d at once", name, etag, concurrency)
			}
		}
	}
}

// The canonical page is gone, or redirects back: the page stands for itself, and for pages that name it.
func TestAPageThatStandsForItselfStandsForItsCopies(t *testing.T) {
	for name, named := range map[string]func(s *site){
		"gone":           func(s *site) { s.status("/named", 410) },
		"redirects back": func(s *site) { s.redirect("/named", "/page", 301) },
		"not indexed":    func(s *site) { s.html("/named", "<meta name=robots content=noindex>") },
		"fails":          func(s *site) { s.status("/named", 403) },
	} {
		for _, links := range [][]string{{"/page", "/copy"}, {"/copy", "/page"}, {"/copy"}, {"/named", "/copy", "/page"}, {"/page", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9", "/copy"}} {
			s, st := newSite(t), newStore()
			s.page("/", "home", links...).copyOf("/page", "text", "/named").copyOf("/copy", "text", "/page")
			named(s)
			for range 2 {
				crawlOK(t, s, st)
				require.Equal(t, "text", st.text(s.URL+"/page"), "%s %v", name, links)
				require.NotContains(t, st.docs, s.URL+"/copy", "%s %v", name, links)
			}
		}
	}
}

func TestAPageStandsForThoseThatNameItThroughOthers(t *testing.T) {
	others := []string{"/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"}
	for name, second := range map[string]func(s *site){
		"a copy":             func(s *site) { s.copyOf("/b", "text", "/c") },
		"redirect to a copy": func(s *site) { s.redirect("/b", "/bb", 302).copyOf("/bb", "text", "/c") },
	} {
		for _, links := range [][]string{{"/a", "/b", "/c"}, {"/c", "/b", "/a"}, {"/b", "/a"}, {"/a"}, append(append([]string{"/b"}, others...), "/a")} {
			s, st := newSite(t), newStore()
			s.page("/", "home", links...).copyOf("/a", "text", "/b").page("/c", "text")
			second(s)
			crawlOK(t, s, st)
			require.Equal(t, []string{"/", "/c"}, st.ids(s), "%s %v", name, links)
		}
	}
}

func TestOfPagesThatNameEachOtherOneStandsForAll(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		s, st := newSite(t), newStore()
		var links []string
		for i := range n {
			links = append(links, fmt.Sprint("/", i))
			s.copyOf(links[i], "text", fmt.Sprint("/", (i+1)%n))
		}
		s.page("/", "home", links...)
		for range 2 {
			crawlOK(t, s, st)
			require.Len(t, st.docs, 2, "%d pages", n)
		}
	}
}
