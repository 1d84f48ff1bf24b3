package crawl

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"github.com/echomind/sync/sdk/worker"
)

// crawler is one crawl. Its maps are used only while visits are applied.
type crawler struct {
	cfg         Config
	opt         Options
	sink        Sink
	fetch       *fetcher
	robotsToken string
	scope       *scope
	start       *url.URL // after redirects
	frontier    *frontier
	known       map[string]worker.Known

	// docs are the source ids that this crawl found, read or failed: any other stored document is gone at the end.
	docs urls
	// textless are documents that failed; old are documents that failed and were stored before; redirecting are URLs that redirect
	// to the other documents, or name them as canonical. A URL that names an old one is old, too.
	textless, old, redirecting urls
	// ids counts the bytes of their source ids, which the next crawl reads.
	ids int
	// undecided are URLs that redirect to pages that failed: nothing is known about documents of their own.
	undecided urls
	// gone are the documents whose pages say that they are gone: see fetcher.deleted.
	gone []string
	// appliedURLs are the URLs whose visits are applied.
	appliedURLs urls
	// waiting are the pages that wait for their canonical page, by its hash, and may have to stand for themselves; a URL that
	// redirects to such a page waits for it. waitsFor is the page that each waits for, by hashes.
	waiting  map[uint64][]string
	waitsFor map[uint64]uint64
	// reading are the URLs that are read now.
	reading map[string]bool
	// applied counts pages, silent counts pages in a row without an answer.
	applied, silent int
	// hasUnread says that a page failed whose links are not known: pages behind it cannot be distinguished from deleted ones.
	hasUnread bool
	// unread are those pages. They are stored at the end, so that an interrupted crawl counts for nothing.
	unread []unread
	// heldBefore counts the crawls in a row before this one that kept pages behind such pages.
	heldBefore int

	// left are the pages that are counted as left out.
	left map[uint64]leftPage
	// refused are links of the last level that may not be requested: a page that repeats them asks robots.txt once.
	refused urls

	result Result
}

// Crawl reads the site that cfg describes and stores its documents in sink. It returns when everything is done and no goroutine
// is left.
//
// An error is a worker.ErrPermanent where only a change of the connector, the site or the service's settings helps: at the
// first crawl the start page is gone (404, 410), refuses (401, 403), is forbidden by robots.txt, leads to another site, or is
// an address that the guard blocks (guard.ErrBlocked). A site that was crawled before is then away. An error of sink is
// returned as it is; where ctx ended, the error wraps its cause. Documents that no link leads to any more are deleted only when
// the error is nil.
func Crawl(ctx context.Context, cfg Config, opt Options, sink Sink) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, worker.Permanent(fmt.Errorf("read the connector's config: %w", err))
	}
	opt, release, err := opt.withDefaults()
	if err != nil {
		return Result{}, err
	}
	defer release()
	known, err := sink.Known(ctx)
	if err != nil {
		return Result{}, err
	}
	c := newCrawler(cfg, opt, sink, known)
	defer c.fetch.close()
	err = c.run(ctx)
	return c.result, err
}

func newCrawler(cfg Config, opt Options, sink Sink, known map[string]worker.Known) *crawler {
	return &crawler{
		cfg: cfg, opt: opt, sink: sink, known: known,
		fetch:       newFetcher(opt, known),
		robotsToken: productToken(opt.UserAgent),
		frontier:    newFrontier(cfg.maxDepth(), cfg.maxPages()),
		docs:        urls{}, textless: urls{}, old: urls{}, redirecting: urls{}, undecided: urls{}, appliedURLs: urls{},
		waiting: map[uint64][]string{}, waitsFor: map[uint64]uint64{}, reading: map[string]bool{}, heldBefore: heldBefore(known),
		left: map[uint64]leftPage{}, refused: urls{},
	}
}

func (c *crawler) run(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	for level := range c.frontier.levels {
		if err := c.read(ctx, level); err != nil {
			return err
		}
		c.frontier.endLevel(level)
	}
	c.forgetStored()
	c.leftOut()
	return c.sweep(ctx)
}

// begin reads the start page, which decides the scope of the crawl.
func (c *crawler) begin(ctx context.Context) error {
	start, err := c.cfg.start()
	if err != nil {
		return worker.Permanent(err)
	}
	e := entry{url: start.String()}
	in := newVisitRoom(nil)
	defer in.release()
	got, err := c.fetch.page(ctx, start, c.withinSite, in)
	if err != nil {
		v, err := failed(ctx, e, err)
		if err != nil {
			return err
		}
		return c.noStart(v)
	}
	c.scope = newScope(got.url, got.via, c.cfg)
	if _, ok := c.scope.admit(got.url); !ok {
		return worker.Permanent(fmt.Errorf("the start page redirects to %s, which is not below path_prefix %q", withoutSecrets(got.url), c.cfg.PathPrefix))
	}
	v, err := c.examine(ctx, e, got, in)
	if err != nil {
		return err
	}
	if v.fail != nil && !v.outlined {
		return c.noStart(v)
	}
	in.countDeferred(c.opt.Room)
	c.start, c.result.Start = got.url, v.id
	c.frontier.seen.add(e.url)
	c.frontier.seen.add(v.id)
	return c.applyVisit(ctx, v, 0)
}

// noStart is the error of a crawl whose start page failed.
func (c *crawler) noStart(v visit) error {
	err := fmt.Errorf("start page: %w", v.fail)
	if v.fail.permanent() && len(c.known) == 0 {
		return worker.Permanent(err)
	}
	return err
}

// withinSite checks that a redirect of the start page stays within the site.
func (c *crawler) withinSite(from, to *url.URL) (*url.URL, error) {
	if !sameSite(from, to) {
		return nil, fmt.Errorf("%s redirects to another site, %s: set url to where the site is now", withoutSecrets(from), withoutSecrets(to))
	}
	return to, nil
}

// read visits one level of the frontier: several pages at once, applied in their order.
func (c *crawler) read(ctx context.Context, level int) error {
	type outcome struct {
		visit visit
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var window []chan outcome
	var rooms []*visitRoom // of the window
	var last *visitRoom
	defer func() {
		wg.Wait()
		for _, in := range rooms {
			in.release()
		}
	}()
	defer cancel()

	for {
		for len(window) < 2*c.opt.Concurrency && c.limit(len(window)) == "" {
			e, ok := c.frontier.next(level)
			if !ok {
				break
			}
			if !e.own && (c.reading[e.url] || c.appliedURLs.has(e.url)) { // the canonical page was read already in the place of another
				c.frontier.giveBack(e)
				continue
			}
			c.reading[e.url] = true
			done := make(chan outcome, 1)
			in := newVisitRoom(last)
			last, window, rooms = in, append(window, done), append(rooms, in)
			if c.docs.has(e.url) {
				in.decide()
				done <- outcome{visit: visit{entry: e, id: e.url, duplicate: true}}
				continue
			}
			wg.Go(func() {
				v, err := c.visit(ctx, e, in)
				done <- outcome{v, err}
			})
		}
		if len(window) == 0 {
			if c.frontier.hasMore(level) {
				c.truncated(c.limit(0))
			}
			return nil
		}
		o := <-window[0]
		if o.err != nil {
			return o.err
		}
		rooms[0].countDeferred(c.opt.Room)
		delete(c.reading, o.visit.entry.url)
		c.frontier.giveBack(o.visit.entry)
		if err := c.applyVisit(ctx, o.visit, level); err != nil {
			return err
		}
		rooms[0].release()
		window, rooms = window[1:], rooms[1:]
	}
}

// checkSilence counts pages in a row without an answer, and returns an error when the site seems to be down: its start page, which
// has answered before, does not answer either. Where that answers, these pages are dead links, and each fails alone.
func (c *crawler) checkSilence(ctx context.Context, f *failure) error {
	if f == nil || !f.down {
		c.silent = 0
		return nil
	}
	if c.silent++; c.silent < c.opt.MaxSilence {
		return nil
	}
	if err := c.fetch.checkAnswers(ctx, c.start); err != nil {
		if ctx.Err() != nil {
			return stopped(ctx, err)
		}
		return fmt.Errorf("%d pages in a row gave no answer, the last one: %w; nor does the start page: %w", c.silent, f, err)
	}
	c.silent = 0
	return nil
}
