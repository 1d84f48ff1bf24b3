//go:build !race

package crawl_test

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"

	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/services/chunker/crawl"
)

func TestAStartPageThatFailsFailsTheCrawl(t *testing.T) {
	for name, c := range map[string]struct {
		setUp func(s *site)
		want  error
	}{
		"404":        {func(s *site) { s.status("/", 404) }, worker.ErrPermanent},
		"410":        {func(s *site) { s.status("/", 410) }, worker.ErrPermanent},
		"401":        {func(s *site) { s.status("/", 401) }, worker.ErrPermanent},
		"403":        {func(s *site) { s.status("/", 403) }, worker.ErrPermanent},
		"500":        {func(s *site) { s.status("/", 500) }, nil},
		"503":        {func(s *site) { s.status("/", 503) }, nil},
		"429":        {func(s *site) { s.status("/", 429) }, nil},
		"408":        {func(s *site) { s.status("/", 408) }, nil},
		"loop":       {func(s *site) { s.redirect("/", "/", 302) }, worker.ErrPermanent},
		"other site": {func(s *site) { s.redirect("/", "https://example.com/", 301) }, worker.ErrPermanent},
		"metadata":   {func(s *site) { s.redirect("/", "http://169.254.169.254/latest/", 302) }, worker.ErrPermanent},
		"file":       {func(s *site) { s.redirect("/", "file:///etc/passwd", 302) }, worker.ErrPermanent},
		"robots":     {func(s *site) { s.robots("User-agent: *\nDisallow: /") }, worker.ErrPermanent},
		"robots 500": {func(s *site) { s.status("/robots.txt", 500) }, nil},
		"robots 503": {func(s *site) { s.status("/robots.txt", 503) }, nil},
		"robots 429": {func(s *site) { s.status("/robots.txt", 429) }, nil},
		"not a text": {func(s *site) {
			s.on("/", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "image/png") })
		}, worker.ErrPermanent},
		"no answer": {func(s *site) { s.on("/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }) }, nil},
		"timeout":   {func(s *site) { s.on("/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }) }, nil},
		"robots hangs": {func(s *site) {
			s.on("/robots.txt", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t).page("/", "home", "/a").page("/a", "A")
			st := newStore()
			crawlOK(t, s, st)
			c.setUp(s)
			_, err := crawlSite(t, s, st, func(_ *crawl.Config, o *crawl.Options) {
				o.RequestTimeout, o.RobotsTimeout = 200*time.Millisecond, 200*time.Millisecond
			})
			require.Error(t, err)
			require.NotErrorIs(t, err, worker.ErrPermanent, "it was crawled before: it is away")
			require.Empty(t, st.put)
			require.Empty(t, st.deleted, "a crawl that failed deletes nothing")
			_, err = crawlSite(t, s, newStore(), func(_ *crawl.Config, o *crawl.Options) {
				o.RequestTimeout, o.RobotsTimeout = 200*time.Millisecond, 200*time.Millisecond
			})
			require.Equal(t, c.want != nil, errors.Is(err, worker.ErrPermanent))
		})
	}
}

func TestAStartPageWithoutContentStillLeadsOn(t *testing.T) {
	s := newSite(t).html("/", "<frameset><frame src=/a></frameset>").page("/a", "A")
	st := newStore()
	crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) { o.Extract = failEmpty })
	require.Equal(t, []string{"/", "/a"}, st.ids(s))
	require.Equal(t, "no main content", st.docs[s.URL+"/"].Err)
}

func TestADeadServerIsTransientAndABlockedOneIsNot(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err := crawl.Crawl(t.Context(), crawl.Config{URL: gone.URL}, options(t), newStore())
	require.NotErrorIs(t, err, worker.ErrPermanent)

	s := newSite(t).page("/", "home")
	opt := options(t)
	opt.Transport = nil
	_, err = crawl.Crawl(t.Context(), crawl.Config{URL: s.URL}, opt, newStore())
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorIs(t, err, guard.ErrBlocked)
	require.ErrorContains(t, err, "add 127.0.0.1/32 to CHUNKER_ALLOW_CIDRS")
	require.Zero(t, s.total())
}

func TestANameThatLeadsIntoThePrivateNetworkIsRefused(t *testing.T) {
	s := newSite(t).page("/", "home")
	for allow, want := range map[string]error{"": worker.ErrPermanent, "127.0.0.0/8": nil} {
		opt := options(t)
		opt.Transport = transportTo(t, allow, [4]byte{127, 0, 0, 1})
		url := strings.Replace(s.URL, "127.0.0.1", "innocent.example", 1)
		_, err := crawl.Crawl(t.Context(), crawl.Config{URL: url}, opt, newStore())
		require.ErrorIs(t, err, want)
	}
}

func TestARedirectOutOfTheSiteIsNotFollowed(t *testing.T) {
	other := newSite(t).page("/", "other")
	s := newSite(t).page("/", "home", "/out", "/meta", "/a").page("/a", "A").
		redirect("/out", other.URL+"/", 302).redirect("/meta", "http://169.254.169.254/latest/meta-data/", 302)
	st := newStore()
	res := crawlOK(t, s, st)
	require.Equal(t, []string{"/", "/a"}, st.ids(s))
	require.Equal(t, 2, res.Skipped)
	require.Zero(t, other.total())
}

func TestAnEndlessRedirectEnds(t *testing.T) {
	s := newSite(t).page("/", "home", "/r/").on("*", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
	}).status("/robots.txt", 404)
	st := newStore()
	crawlOK(t, s, st)
	require.Contains(t, st.docs[s.URL+"/r/"].Err, "more than 5")
	require.Equal(t, 2+6, s.total())
}

func TestTheStartPageMayMoveWithinItsSite(t *testing.T) {
	s := newSite(t).page("/", "home", "http://example.com/a", "https://www.example.com/b", "http://www.example.com/c", "https://example.com/d").
		page("/a", "A").page("/b", "B").page("/c", "C").page("/d", "D")
	for start, target := range map[string]string{
		"http://example.com/":    "https://www.example.com/",
		"http://example.com":     "https://example.com/",
		"http://www.example.com": "http://example.com/",
	} {
		st := newStore()
		opt := options(t)
		opt.Transport = moved{from: strings.TrimSuffix(start, "/"), to: target, site: s}
		res, err := crawl.Crawl(t.Context(), crawl.Config{URL: start}, opt, st)
		require.NoError(t, err)
		require.Equal(t, target, res.Start)
		require.Contains(t, st.docs, target)
		require.Contains(t, st.docs, target+"a", "links to the former address lead to the new one")
		for id := range st.docs {
			require.True(t, strings.HasPrefix(id, target), id)
		}
	}
}

func TestTheStartPageDoesNotMoveToAnotherSite(t *testing.T) {
	s := newSite(t).page("/", "home")
	for start, target := range map[string]string{
		"https://example.com":      "http://example.com/",
		"http://example.com":       "http://example.org/",
		"http://a.github.io":       "http://b.github.io/",
		"http://a.co.uk":           "http://b.co.uk/",
		"http://example.com:81":    "http://www.example.com:81/",
		"http://example.com:8080":  "http://example.com:9090/",
		"http://192.0.2.1":         "http://192.0.2.2/",
		"http://localhost":         "http://other/",
		"http://user.example.com":  "http://a:b@www.example.com/",
		"https://mail.example.com": "ftp://www.example.com/",
	} {
		opt := options(t)
		opt.Transport = moved{from: start, to: target, site: s}
		_, err := crawl.Crawl(t.Context(), crawl.Config{URL: start}, opt, newStore())
		require.ErrorIs(t, err, worker.ErrPermanent, start)
	}
}

func TestHTTPMayBecomeHTTPSOnOneHost(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<main>secure</main>"))
	}))
	t.Cleanup(secure.Close)
	s := newSite(t).redirect("/", secure.URL+"/", 301)
	tr := loopbackTransport(t)
	tr.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tr.TLSClientConfig.RootCAs = x509.NewCertPool()
	tr.TLSClientConfig.RootCAs.AddCert(secure.Certificate())
	st := newStore()
	res := crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) { o.Transport = tr })
	require.Equal(t, secure.URL+"/", res.Start)
	require.Equal(t, "secure", st.text(res.Start))
}

func TestAStartPageThatMovesOutOfThePrefixIsRefused(t *testing.T) {
	s := newSite(t).redirect("/docs/", "/blog/", 301).page("/blog/", "blog")
	_, err := crawlSite(t, s, newStore(), func(c *crawl.Config, _ *crawl.Options) { c.URL += "docs/"; c.PathPrefix = "/docs/" })
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, `not below path_prefix "/docs/"`)
}

// moved answers for any host: with a redirect for from, with the site's pages for all other hosts.
type moved struct {
	from, to string
	site     *site
}

func (m moved) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.URL.Scheme+"://"+r.URL.Host == m.from && r.URL.Path != "/robots.txt" {
		w.Header().Set("Location", m.to)
		w.WriteHeader(http.StatusMovedPermanently)
	} else {
		m.site.ServeHTTP(w, r)
	}
	res := w.Result()
	res.Request = r
	return res, nil
}
