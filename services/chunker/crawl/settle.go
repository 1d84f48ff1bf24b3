package crawl

import (
	"context"
	"net/url"

	"github.com/echomind/sync/sdk/worker"
)

// settle draws the consequences of one visit: for its document, and for the frontier.
func (c *crawler) settle(ctx context.Context, v visit, level int) error {
	if ctx.Err() != nil {
		return stopped(ctx, nil)
	}
	c.settled++
	if !v.duplicate {
		if err := c.tooSilent(ctx, v.fail); err != nil {
			return err
		}
	}
	if err := c.record(ctx, v, level); err != nil {
		return err
	}
	c.frontier.remember(c.settledURLs, v.entry.url)
	if v.entry.own && c.pending(v.entry.url) {
		delete(c.waitsFor, hashed(v.entry.url))
		c.frontier.left += seenBytes
	}
	if v.entry.url != v.id {
		c.redirects(v)
	}
	if !c.pending(v.entry.url) {
		c.answer(v.entry.url)
	}
	return nil
}

// redirects notes what a URL that redirects to a page leads to: its text, or what it waits for.
func (c *crawler) redirects(v visit) {
	switch {
	case c.docs.has(v.id) && !c.textless.has(v.id) || c.leads.has(v.id):
		c.frontier.remember(c.leads, v.entry.url)
	case !v.entry.own && c.pending(v.id) && !c.circles(v.id, v) && c.frontier.takes(len(v.entry.url)+waitBytes, 0):
		c.wait(v.entry.url, v.id)
	}
}

// answer settles the pages that wait for the one that they named: there is a text in their place, or they are to be taken for themselves.
func (c *crawler) answer(named string) {
	key := hashed(named)
	ids := c.waiting[key]
	delete(c.waiting, key)
	for _, id := range ids {
		c.frontier.left += len(id) + waitBytes
		if !c.stands(named, id) {
			c.frontier.left -= seenBytes
			c.waitsFor[hashed(id)] = itself
			c.frontier.again(id)
			continue
		}
		delete(c.waitsFor, hashed(id))
		c.stoodFor(id, named)
		c.answer(id)
	}
}

// itself is for whom a page waits that is to be read again.
const itself = 0

// pending tells whether a page waits for the one that it names as canonical, or is to be read again.
func (c *crawler) pending(url string) bool {
	_, is := c.waitsFor[hashed(url)]
	return is
}

func (c *crawler) wait(id, named string) {
	c.waiting[hashed(named)] = append(c.waiting[hashed(named)], id)
	c.waitsFor[hashed(id)] = hashed(named)
}

// maxChain bounds how many pages wait for one another.
const maxChain = 100

// circles tells whether a page that named waits for, directly or through others, is that of v: one of them has to stand for itself.
func (c *crawler) circles(named string, v visit) bool {
	at := hashed(named)
	for range maxChain {
		next, is := c.waitsFor[at]
		if !is {
			return false
		}
		if next == hashed(v.id) || next == hashed(v.entry.url) {
			return true
		}
		at = next
	}
	return true
}

// stoodFor notes a page in whose place there is the text of another. An earlier text stands in fewer places.
func (c *crawler) stoodFor(id, named string) {
	if c.docs.has(named) && !c.textless.has(named) || c.leads.has(named) {
		c.frontier.remember(c.leads, id)
		return
	}
	c.frontier.remember(c.old, id)
}

// found notes a document.
func (c *crawler) found(id string) {
	if !c.docs.has(id) {
		c.frontier.remember(c.docs, id)
		c.ids += len(id)
	}
}

// stands tells whether a document with text is there in the place of a page that names a URL: that of the URL, or of one to
// which it leads. An earlier text of one that fails now stands for pages that are not stored.
func (c *crawler) stands(url, id string) bool {
	return c.docs.has(url) && !c.textless.has(url) || c.leads.has(url) || c.old.has(url) && c.before(id).VersionToken == ""
}

// before is what is known of a document that is stored, as long as the crawl has not deleted it.
func (c *crawler) before(id string) worker.Known {
	if c.deleted.has(id) {
		return worker.Known{}
	}
	return c.known[id]
}

func (c *crawler) record(ctx context.Context, v visit, level int) error {
	switch {
	case v.duplicate || c.docs.has(v.id):
		c.result.Skipped++
		c.follow(v.outline.links, level)
		return nil
	case v.fail != nil:
		return c.fail(ctx, v, level)
	case v.outline.noindex:
		c.result.Skipped++
		return c.onward(ctx, v, level)
	case !v.entry.own && c.standsFor(v):
		c.result.Skipped++
		c.follow(v.outline.links, level)
		return nil
	case v.notModified && c.deleted.has(v.id): // it was asked for before that
		c.frontier.again(v.id)
		return nil
	case v.notModified:
		c.found(v.id)
		c.unchanged()
		return c.onward(ctx, v, level)
	default:
		c.found(v.id)
		return c.store(ctx, v, level)
	}
}

// standsFor tells whether the page that v names as canonical takes v's place: it has a document with text, or is read next. If that
// comes to nothing, v is read again for itself.
func (c *crawler) standsFor(v visit) bool {
	named := v.outline.canonical
	if !v.namesAnother() || named == v.entry.url { // that redirects to it
		return false
	}
	if c.stands(named, v.id) {
		c.stoodFor(v.id, named)
		return true
	}
	if c.settledURLs.has(named) && !c.pending(named) || !c.allowed(named) || c.circles(named, v) {
		return false
	}
	if c.pending(v.id) || c.waits(named, v.id) {
		return true
	}
	if c.before(named).VersionToken == "" {
		return false
	}
	// There is no memory to read it now: as it is stored it is better than v under another name beside it.
	c.found(named)
	c.result.Held++
	return true
}

// waits has a page wait for the canonical one, which is read next unless another waits for it already, or it waits itself. It is false
// where there is no memory for that.
func (c *crawler) waits(named, id string) bool {
	asked := len(c.waiting[hashed(named)]) > 0 || c.pending(named)
	if asked && !c.frontier.takes(len(id)+waitBytes, 0) || !asked && !c.frontier.stand(named, id) {
		return false
	}
	c.wait(id, named)
	return true
}

// store keeps a page that gave content.
func (c *crawler) store(ctx context.Context, v visit, level int) error {
	doc := worker.Document{
		SourceID: v.id, URL: v.id,
		Title:        clip(v.page.Title, maxTitleBytes),
		MediaType:    clip(v.page.MediaType, maxTitleBytes),
		ContentHash:  v.page.ContentHash,
		VersionToken: v.token,
		Links:        v.outline.links,
		Memo:         remembered{}.memo(),
		Chunks:       v.page.Chunks,
	}
	if v.namesAnother() { // which may have a document by the next crawl: a 304 would not name it
		doc.VersionToken = noValidators
	}
	c.follow(v.outline.links, level)
	if before := c.before(v.id); before.VersionToken == "" || before.ContentHash != doc.ContentHash {
		c.result.Stored++
		return c.sink.Put(ctx, doc)
	}
	links, err := c.sink.Links(ctx, v.id)
	if err != nil {
		return err
	}
	if sameLinks(links, doc.Links) {
		c.unchanged()
		return nil
	}
	doc.Chunks = nil
	c.result.Touched++
	return c.sink.Touch(ctx, doc)
}

// onward follows a page's links: the stored ones if the page did not come again.
func (c *crawler) onward(ctx context.Context, v visit, level int) error {
	if v.outline.nofollow {
		return nil
	}
	links := v.outline.links
	if v.notModified {
		var err error
		if links, err = c.sink.Links(ctx, v.id); err != nil {
			return err
		}
	}
	c.follow(links, level)
	return nil
}

func (c *crawler) follow(links []string, level int) {
	for _, link := range links {
		c.frontier.offer(link, level+1, c.allowed)
	}
}

// allowed tells whether a URL may be asked for: it is in the scope, and robots.txt does not forbid it.
// Links may be stored ones, from before either changed.
func (c *crawler) allowed(link string) bool {
	u, err := url.Parse(link)
	if err != nil {
		return false
	}
	same, ok := c.scope.admit(u)
	return ok && same == u && c.fetch.robots.allows(u)
}

func (c *crawler) unchanged() {
	c.result.Unchanged++
	c.sink.Unchanged(1)
}
