package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
)

// drawn is a random site. Its pages are numbers; 0 is the start page.
type drawn struct {
	random *rand.Rand
	pages  []drawnPage
	// failing are the pages that fail for now, with their status.
	failing map[int]int
	edition int
}

type drawnPage struct {
	status, redirect int // redirect and canonical: none where negative
	canonical        int
	noindex, etag    bool
	links            []int
	edition          int
}

func draw(seed uint64) *drawn {
	d := &drawn{random: rand.New(rand.NewPCG(seed, 0)), failing: map[int]int{}}
	d.pages = make([]drawnPage, 3+d.random.IntN(8))
	for n := range d.pages {
		d.redraw(n)
	}
	return d
}

func (d *drawn) redraw(n int) {
	d.edition++
	some := func() int { return d.random.IntN(len(d.pages)) }
	p := drawnPage{status: 200, redirect: -1, canonical: -1, etag: d.random.IntN(2) == 0, edition: d.edition}
	for range d.random.IntN(3) + max(0, 2-n) {
		p.links = append(p.links, some())
	}
	if d.random.IntN(4) == 0 {
		p.canonical = some()
	}
	switch kind := d.random.IntN(10); {
	case n == 0:
	case kind == 0:
		p.status = 404
	case kind == 1 && n+1 < len(d.pages): // never back: such a redirect fails for ever
		p.redirect = n + 1 + d.random.IntN(len(d.pages)-n-1)
	case kind == 2:
		p.noindex = true
	}
	d.pages[n] = p
}

func (d *drawn) url(n int) string {
	if n == 0 {
		return "https://site.example/"
	}
	return fmt.Sprint("https://site.example/", n)
}

func (d *drawn) RoundTrip(r *http.Request) (*http.Response, error) {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	res := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/html"}}, Request: r, ContentLength: -1, Body: http.NoBody}
	if r.URL.Path == "/robots.txt" {
		return res, nil
	}
	if n >= len(d.pages) {
		res.StatusCode = http.StatusInternalServerError
		return res, nil
	}
	p := d.pages[n]
	res.StatusCode = p.status
	tag := fmt.Sprintf(`"%d"`, p.edition)
	switch {
	case d.failing[n] != 0:
		res.StatusCode = d.failing[n]
	case p.status != 200:
	case p.redirect >= 0:
		res.StatusCode = 302
		res.Header.Set("Location", d.url(p.redirect))
	case p.etag && r.Header.Get("If-None-Match") == tag:
		res.StatusCode = 304
	default:
		body := fmt.Sprintf("<title>%d</title><main>edition %d of %d</main>", n, p.edition, n)
		if p.noindex {
			body += "<meta name=robots content=noindex>"
		}
		if p.canonical >= 0 {
			body += "<link rel=canonical href=" + d.url(p.canonical) + ">"
		}
		for _, to := range p.links {
			body += "<a href=" + d.url(to) + ">"
		}
		if p.etag {
			res.Header.Set("ETag", tag)
		}
		res.Body = io.NopCloser(strings.NewReader(body))
	}
	return res, nil
}

// fail makes some pages fail whose documents are known. No link leads to a page that names another as canonical.
func (d *drawn) fail(st *store) {
	d.failing = map[int]int{}
	for n := 1; n < len(d.pages); n++ {
		if d.isOriginal(st, n) && d.random.IntN(4) == 0 {
			d.failing[n] = []int{503, 500, 403}[d.random.IntN(3)]
		}
	}
}

// full is a store that has no room for some documents, and may die.
type full struct {
	*store
	random  *rand.Rand
	refuses bool
	// left counts the calls until the store dies; negative: it does not die.
	left int
}

var errDied = errors.New("died")

func (s *full) Put(ctx context.Context, d worker.Document) error {
	if s.left--; s.left == -1 {
		return errDied
	}
	before := s.docs[d.SourceID]
	if d.Err != "" { // its text is kept
		d.Chunks = before.Chunks
	}
	if err := s.store.Put(ctx, d); err != nil || d.Err != "" || !s.refuses || s.random.IntN(3) > 0 {
		return err
	}
	refused := worker.Document{SourceID: d.SourceID, Err: "no room for it", Links: d.Links, Chunks: before.Chunks}
	if s.random.IntN(2) == 0 { // the quota is full, or the document was given up
		refused.Links = before.Links
	}
	s.docs[d.SourceID] = refused
	return nil
}

func (d *drawn) crawl(t *testing.T, sink crawl.Sink) (crawl.Result, error) {
	t.Helper()
	c := newClock()
	opt := crawl.Options{Extract: extractMain, Runner: crawl.InProcess{}, Transport: d, Now: c.Now, Wait: c.Wait, MaxSilence: 2, Concurrency: 1 + d.random.IntN(4)}
	res, err := crawl.Crawl(t.Context(), crawl.Config{URL: d.url(0), MaxDepth: ptr(20)}, opt, sink)
	require.False(t, res.Truncated)
	return res, err
}

// originals are the documents of pages that name no other page as canonical. Where several copies name each other, the order in
// which they are read decides which are stored.
func (d *drawn) originals(st *store) []string {
	ids := []string{}
	for n := range d.pages {
		if d.isOriginal(st, n) {
			ids = append(ids, d.url(n))
		}
	}
	return ids
}

func (d *drawn) isOriginal(st *store, n int) bool {
	_, stored := st.docs[d.url(n)]
	p := d.pages[n]
	return stored && p.redirect < 0 && (p.canonical < 0 || p.canonical == n)
}

// hasTextSomewhere tells whether there is text for a page: its own, or that of its canonical page, or of that page's.
func (d *drawn) hasTextSomewhere(st *store, n int) bool {
	for range d.pages {
		if len(st.docs[d.url(n)].Chunks) > 0 {
			return true
		}
		if n = max(d.pages[n].redirect, d.pages[n].canonical); n < 0 {
			return false
		}
	}
	return false
}

// drawnSites is a sample of some thousands that were tried when the test was written.
const drawnSites = 200

// The store refuses documents at random, crawls die, pages fail: meanwhile no earlier document is deleted. Once all pages
// answer, the index is the same as after a crawl that begins with an empty index.
func TestWhateverFailsForAWhileAnIndexIsWhatItsSiteIs(t *testing.T) {
	for seed := range uint64(drawnSites) {
		d, st := draw(seed), newStore()
		sink := &full{store: st, random: d.random, left: -1}
		for range 3 {
			d.redraw(1 + d.random.IntN(len(d.pages)-1))
			sink.refuses = d.random.IntN(2) == 0
			_, err := d.crawl(t, sink)
			require.NoError(t, err)
			there := d.originals(st)

			for range crawl.MaxHeldCrawls {
				d.fail(st)
				if sink.left = -1; d.random.IntN(3) == 0 {
					sink.left = d.random.IntN(3)
				}
				if _, err := d.crawl(t, sink); err != nil {
					require.ErrorIs(t, err, errDied)
				}
				require.Subset(t, d.originals(st), there, "seed %d: %+v fail %v", seed, d.pages, d.failing)
			}
			d.failing, sink.left, sink.refuses = map[int]int{}, -1, false
			res, err := d.crawl(t, sink)
			require.NoError(t, err)
			require.Zero(t, res.Held)
			fresh := newStore()
			_, err = d.crawl(t, fresh)
			require.NoError(t, err)
			require.Equal(t, d.originals(fresh), d.originals(st), "seed %d: %+v", seed, d.pages)
			for n := range d.pages {
				want, stored := fresh.docs[d.url(n)]
				require.True(t, !stored || d.hasTextSomewhere(st, n), "seed %d: %d of %+v", seed, n, d.pages)
				if got, is := st.docs[d.url(n)]; stored && is {
					require.Empty(t, got.Err)
					require.Equal(t, want.Chunks, got.Chunks, "seed %d: %d of %+v", seed, n, d.pages)
					require.ElementsMatch(t, want.Links, got.Links, "seed %d: %d of %+v", seed, n, d.pages)
				}
			}
		}
	}
}

// reachable are the pages to which links lead.
func (d *drawn) reachable() map[int]bool {
	seen, next := map[int]bool{}, []int{0}
	for len(next) > 0 {
		n := next[0]
		next = next[1:]
		if n < 0 || n >= len(d.pages) || seen[n] {
			continue
		}
		seen[n] = true
		next = append(append(next, d.pages[n].links...), d.pages[n].redirect, d.pages[n].canonical)
	}
	return seen
}

// Any page fails but those whose links have changed, and at each crawl a new page.
func TestWhateverFailsForEverWhatNothingLinksToIsDeleted(t *testing.T) {
	for seed := range uint64(drawnSites) {
		d, st := draw(seed), newStore()
		_, err := d.crawl(t, st)
		require.NoError(t, err)
		changed := 1 + d.random.IntN(len(d.pages)-1)
		d.redraw(changed)
		home := d.pages[0]
		for n := range crawl.MaxHeldCrawls + 1 {
			d.failing = map[int]int{}
			for n := 1; n < len(d.pages); n++ {
				if n != changed && d.random.IntN(3) == 0 {
					d.failing[n] = []int{503, 500, 403}[d.random.IntN(3)]
				}
			}
			d.pages[0] = home
			d.pages[0].links = append(slices.Clone(home.links), len(d.pages)+n)
			d.pages[0].edition = 1000 + n
			_, err := d.crawl(t, st)
			require.NoError(t, err)
		}
		reachable := d.reachable()
		for n := range d.pages {
			_, stored := st.docs[d.url(n)]
			require.True(t, reachable[n] || !stored, "seed %d: %d of %+v, changed %d", seed, n, d.pages, changed)
		}
		for n := range crawl.MaxHeldCrawls {
			require.NotContains(t, st.docs, d.url(len(d.pages)+n), "seed %d", seed)
		}
	}
}

// A page that another page replaces, by canonical links or redirects, has no document of its own.
func TestWhereAllAnswerNoCopyIsStoredBesideThePageThatStandsForIt(t *testing.T) {
	for seed := range uint64(drawnSites) {
		d, st := draw(seed), newStore()
		for range 2 {
			_, err := d.crawl(t, st)
			require.NoError(t, err)
			for n := range d.pages {
				_, stored := st.docs[d.url(n)]
				for at, steps := n, 0; stored && steps < len(d.pages); steps++ {
					p := d.pages[at]
					if at = max(p.redirect, p.canonical); p.redirect >= 0 {
						at = p.redirect
					}
					if at < 0 || at == n || p.noindex || p.status != 200 {
						break
					}
					require.NotContains(t, st.docs, d.url(at), "seed %d: %d beside %d of %+v", seed, n, at, d.pages)
				}
			}
		}
	}
}
