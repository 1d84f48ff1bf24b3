package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/chunker/crawl"
)

func TestRobotsFilesDecideWhatIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		setUp func(s *site)
		want  []string
	}{
		"rules":        {func(s *site) { s.robots("User-agent: *\nDisallow: /a") }, []string{"/", "/b"}},
		"rules for us": {func(s *site) { s.robots("User-agent: echomindsync\nDisallow: /b\nUser-agent: *\nDisallow: /") }, []string{"/", "/a"}},
		"404":          {func(s *site) { s.status("/robots.txt", 404) }, []string{"/", "/a", "/b"}},
		"403":          {func(s *site) { s.status("/robots.txt", 403) }, []string{"/", "/a", "/b"}},
		"redirect": {func(s *site) {
			s.redirect("/robots.txt", "/r", 302).on("/r", raw("text/plain", []byte("User-agent: *\nDisallow: /b")))
		}, []string{"/", "/a"}},
		"endless redirect": {func(s *site) { s.redirect("/robots.txt", "/robots.txt", 302) }, []string{"/", "/a", "/b"}},
		"too long": {func(s *site) {
			s.robots("User-agent: *\nDisallow: /a\n#" + strings.Repeat("x", 600<<10) + "\nDisallow: /b")
		}, []string{"/", "/b"}},
		"cut in a rule": {func(s *site) {
			s.robots("User-agent: *\nDisallow: /a\n" + strings.Repeat("#", 512<<10-28-12) + "\nDisallow: /private")
		}, []string{"/", "/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t).page("/", "home", "/a", "/b").page("/a", "A").page("/b", "B")
			c.setUp(s)
			st := newStore()
			crawlOK(t, s, st)
			require.Equal(t, c.want, st.ids(s))
			require.LessOrEqual(t, s.requests("/robots.txt"), 2, "read once a crawl")
		})
	}
}

func TestAForbiddenPageIsNeverAskedFor(t *testing.T) {
	s := newSite(t).robots("User-agent: *\nDisallow: /a").page("/", "home", "/a", "/via").redirect("/via", "/a", 302).page("/a", "A")
	st := newStore()
	res := crawlOK(t, s, st)
	require.Zero(t, s.requests("/a"))
	require.Equal(t, 1, res.Skipped)
}

func TestAPageThatRobotsForbidNowIsDeleted(t *testing.T) {
	s := newSite(t).page("/", "home", "/a").page("/a", "A")
	st := newStore()
	crawlOK(t, s, st)
	s.robots("User-agent: *\nDisallow: /a")
	crawlOK(t, s, st)
	require.Equal(t, []string{"/a"}, paths(s, st.deleted))
}

func TestOneHostGetsAFewRequestsAtOnceWhoeverAsks(t *testing.T) {
	var now, most atomic.Int32
	s := newSite(t)
	var hrefs []string
	for i := range 20 {
		hrefs = append(hrefs, fmt.Sprintf("/%d", i))
	}
	s.page("/", "home", hrefs...).status("/robots.txt", 404)
	var arrived atomic.Int32
	four := make(chan struct{})
	s.on("*", func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if arrived.Add(1) == 4 {
			close(four)
		}
		select {
		case <-four:
		case <-r.Context().Done():
		}
		raw("text/plain", []byte(r.URL.Path))(w, r)
	})
	hosts := crawl.NewHosts()
	var wg sync.WaitGroup
	for range 2 {
		opt := options(t)
		opt.Hosts = hosts
		wg.Go(func() {
			_, err := crawl.Crawl(context.WithoutCancel(t.Context()), crawl.Config{URL: s.URL}, opt, newStore())
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(4), most.Load())
}

func TestRequestsKeepTheirDistance(t *testing.T) {
	for name, c := range map[string]struct {
		robots   string
		minDelay time.Duration
		want     time.Duration
	}{
		"nothing asked":          {"", 0, 0},
		"service asks":           {"", 3 * time.Second, 3 * time.Second},
		"site asks":              {"User-agent: *\nCrawl-delay: 2", 0, 2 * time.Second},
		"site asks less":         {"User-agent: *\nCrawl-delay: 1", 3 * time.Second, 3 * time.Second},
		"site asks far too much": {"User-agent: *\nCrawl-delay: 86400", 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t).page("/", "home", "/a", "/b", "/c").page("/a", "A").page("/b", "B").page("/c", "C").robots(c.robots)
			clk := newClock()
			begin := clk.Now()
			crawlOK(t, s, newStore(), func(_ *crawl.Config, o *crawl.Options) {
				o.MinDelay, o.Now, o.Wait, o.Concurrency = c.minDelay, clk.Now, clk.Wait, 1
			})
			expected := 3 * c.want
			if c.minDelay > 0 {
				expected = 4 * c.want
			}
			require.InDelta(t, expected, clk.Now().Sub(begin), float64(time.Millisecond))
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	for name, c := range map[string]struct {
		code       int
		retryAfter string
		times      int
		ok         bool
		waited     time.Duration
	}{
		"seconds":             {503, "7", 1, true, 7 * time.Second},
		"too many requests":   {429, "7", 1, true, 7 * time.Second},
		"date":                {503, "Fri, 02 Jan 2026 03:04:15 GMT", 1, true, 10 * time.Second},
		"date in the past":    {503, "Fri, 02 Jan 2015 03:04:15 GMT", 1, true, time.Second},
		"nothing said":        {503, "", 3, true, (1 + 2 + 4) * time.Second},
		"nonsense":            {503, "soon", 1, true, time.Second},
		"nought":              {503, "0", 2, true, 3 * time.Second},
		"for ever":            {503, "5", 100, false, 15 * time.Second},
		"longer than we wait": {503, "3600", 1, false, 0},
		"longer than time":    {503, "99999999999999999999", 1, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int32
			s := newSite(t).page("/", "home", "/a").on("/a", func(w http.ResponseWriter, r *http.Request) {
				if int(tries.Add(1)) <= c.times {
					w.Header()["Retry-After"] = []string{c.retryAfter}
					w.Header().Set("Date", newClock().Now().Format(http.TimeFormat)) // the site's own clock
					w.WriteHeader(c.code)
					return
				}
				raw("text/plain", []byte("A"))(w, r)
			})
			clk := newClock()
			begin := clk.Now()
			st := newStore()
			crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) { o.Now, o.Wait = clk.Now, clk.Wait })
			require.Equal(t, c.ok, st.docs[s.URL+"/a"].Err == "", st.docs[s.URL+"/a"].Err)
			require.Equal(t, c.waited, clk.Now().Sub(begin))
		})
	}
}

// One URL of a host that many owners crawl may say "come back later" to every request, for ever.
func TestComeBackLaterHoldsTheCrawlsOfOneOwnerAlone(t *testing.T) {
	limited := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	s := newSite(t).page("/", "home", "/a", "/b").page("/a", "A").page("/b", "B").status("/robots.txt", 404)
	var hrefs []string
	for i := range 8 {
		path := fmt.Sprintf("/limited/%d", i)
		hrefs = append(hrefs, path)
		s.on(path, limited)
	}
	s.page("/many", "many", hrefs...)
	hosts := crawl.NewHosts()
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan struct{}, 100)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		opt := options(t)
		opt.Hosts, opt.Owner = hosts, "hostile"
		opt.Wait = func(ctx context.Context, _ time.Duration) error {
			waiting <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		_, _ = crawl.Crawl(ctx, crawl.Config{URL: s.URL + "/many"}, opt, newStore())
	})
	for range 8 { // twice as many as the host has slots
		<-waiting
	}
	crawlAs := func(owner string) (waited time.Duration) {
		st, clk := newStore(), newClock()
		begin := clk.Now()
		crawlOK(t, s, st, func(_ *crawl.Config, o *crawl.Options) {
			o.Hosts, o.Owner, o.Now, o.Wait = hosts, owner, clk.Now, clk.Wait
		})
		require.Equal(t, []string{"/", "/a", "/b"}, st.ids(s))
		return clk.Now().Sub(begin)
	}
	require.Zero(t, crawlAs("other"))
	require.Equal(t, 30*time.Second, crawlAs("hostile"), "another crawl of the same owner's")
}

func TestASiteThatIsBusyAtFirstIsCrawled(t *testing.T) {
	var tries atomic.Int32
	busy := func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("User-agent: *\nAllow: /\n"))
	}
	s := newSite(t).on("/robots.txt", busy).on("/", busy)
	st := newStore()
	crawlOK(t, s, st)
	require.Equal(t, []string{"/"}, st.ids(s))
}

func TestACrawlThatIsStoppedWhileWaitingEnds(t *testing.T) {
	s := newSite(t).page("/", "home", "/a").status("/a", 503)
	ctx, cancel := context.WithCancel(t.Context())
	opt := options(t)
	opt.Wait = func(ctx context.Context, _ time.Duration) error { cancel(); <-ctx.Done(); return ctx.Err() }
	_, err := crawl.Crawl(ctx, crawl.Config{URL: s.URL}, opt, newStore())
	require.ErrorIs(t, err, context.Canceled)
}

func TestRequestsSayWhoAsks(t *testing.T) {
	var agent, cookie atomic.Value
	s := newSite(t).on("/", func(w http.ResponseWriter, r *http.Request) {
		agent.Store(r.UserAgent())
		cookie.Store(r.Header.Get("Cookie"))
		http.SetCookie(w, &http.Cookie{Name: "id", Value: "1"})
		raw("text/html", []byte("<main>x</main>"))(w, r)
	})
	crawlOK(t, s, newStore())
	require.Regexp(t, `^EchoMindSync/1\.0 \(\+https://`, agent.Load())
	require.Empty(t, cookie.Load())
}

func TestWithoutAClockOfItsOwnACrawlWaitsInRealTime(t *testing.T) {
	s := newSite(t).page("/", "home", "/a", "/b").page("/a", "A").page("/b", "B")
	begin := time.Now()
	crawlOK(t, s, newStore(), func(_ *crawl.Config, o *crawl.Options) { o.Now, o.Wait, o.MinDelay = nil, nil, 5*time.Millisecond })
	require.GreaterOrEqual(t, time.Since(begin), 15*time.Millisecond)
}
