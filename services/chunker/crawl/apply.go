package crawl

import (
	"context"
	"net/url"
)

// applyVisit applies one visit: to its document, and to the frontier.
func (c *crawler) applyVisit(ctx context.Context, v visit, level int) error {
	if ctx.Err() != nil {
		return stopped(ctx, nil)
	}
	c.applied++
	if !v.duplicate {
		if err := c.checkSilence(ctx, v.fail); err != nil {
			return err
		}
	}
	if err := c.record(ctx, v, level); err != nil {
		return err
	}
	c.frontier.remember(c.appliedURLs, v.entry.url)
	if v.entry.own && c.pending(v.entry.url) {
		delete(c.waitsFor, hashed(v.entry.url))
		c.frontier.left += seenBytes
	}
	if v.entry.url != v.id {
		c.redirects(v)
	}
	if !c.pending(v.entry.url) {
		c.resolveWaiting(v.entry.url)
	}
	return nil
}

// redirects notes where a redirecting URL leads: to a text, or to a page that waits.
func (c *crawler) redirects(v visit) {
	switch {
	case c.docs.has(v.id) && !c.textless.has(v.id) || c.redirecting.has(v.id):
		c.frontier.remember(c.redirecting, v.entry.url)
	case !v.entry.own && c.pending(v.id) && !c.isCycle(v.id, v) && c.frontier.takeBytes(len(v.entry.url)+waitBytes, 0):
		c.wait(v.entry.url, v.id)
	}
}

// resolveWaiting decides about the pages that wait for a canonical page: that has a text in their place, or they are read for
// themselves.
func (c *crawler) resolveWaiting(named string) {
	key := hashed(named)
	ids := c.waiting[key]
	delete(c.waiting, key)
	for _, id := range ids {
		c.frontier.left += len(id) + waitBytes
		if !c.hasText(named, id) {
			c.frontier.left -= seenBytes
			c.waitsFor[hashed(id)] = readItself
			c.frontier.readAgain(id)
			continue
		}
		delete(c.waitsFor, hashed(id))
		c.noteReplaced(id, named)
		c.resolveWaiting(id)
	}
}

// readItself marks a page that waits for no other page and is read again.
const readItself = 0

// pending tells whether a page waits for its canonical page, or is to be read again.
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

// isCycle tells whether the canonical page waits, directly or through others, for the page of v: one of them must stand for itself.
func (c *crawler) isCycle(named string, v visit) bool {
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

// noteReplaced notes a page whose canonical page has the text. An earlier text replaces fewer pages.
func (c *crawler) noteReplaced(id, named string) {
	if c.docs.has(named) && !c.textless.has(named) || c.redirecting.has(named) {
		c.frontier.remember(c.redirecting, id)
		return
	}
	c.frontier.remember(c.old, id)
}

// addDocument notes a document.
func (c *crawler) addDocument(id string) {
	if !c.docs.has(id) {
		c.frontier.remember(c.docs, id)
		c.ids += len(id)
	}
}

// hasText tells whether a document with text exists for a URL, or for a page to which it leads. The earlier text of a page that
// fails now counts for pages that are not stored.
func (c *crawler) hasText(url, id string) bool {
	return c.docs.has(url) && !c.textless.has(url) || c.redirecting.has(url) || c.old.has(url) && c.tokenBefore(id) == ""
}

// tokenBefore is the version token of a document that the crawl has not deleted.
func (c *crawler) tokenBefore(id string) string {
	before, _ := c.fetch.storedBefore(id)
	return before.VersionToken
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
		c.leave(v.id, notToBeIndexed)
		return c.followStored(ctx, v, level)
	case !v.entry.own && c.isReplaced(v):
		c.result.Skipped++
		c.follow(v.outline.links, level)
		return nil
	case v.notModified && c.fetch.isDeleted(v.id): // it was requested before it was deleted
		c.frontier.readAgain(v.id)
		return nil
	case v.notModified:
		c.addDocument(v.id)
		c.unchanged()
		return c.followStored(ctx, v, level)
	default:
		c.addDocument(v.id)
		return c.store(ctx, v, level)
	}
}

// isReplaced tells whether the canonical page of v takes v's place: it has a document with text, or is read next. If it gives no
// text, v is read again for itself.
func (c *crawler) isReplaced(v visit) bool {
	named := v.outline.canonical
	if !v.namesAnother() || named == v.entry.url { // the canonical page redirects to it
		return false
	}
	if c.hasText(named, v.id) {
		c.noteReplaced(v.id, named)
		return true
	}
	if c.appliedURLs.has(named) && !c.pending(named) || !c.allowed(named) || c.isCycle(named, v) {
		return false
	}
	if c.pending(v.id) || c.waitForCanonical(named, v.id) {
		return true
	}
	if c.tokenBefore(named) == "" {
		return false
	}
	// There is no memory to read the canonical page now. Its stored document is better than a second one for v.
	c.addDocument(named)
	c.result.Held++
	return true
}

// waitForCanonical makes a page wait for its canonical page, which is read next unless another page waits for it already, or it
// waits itself. It returns false where there is no memory for that.
func (c *crawler) waitForCanonical(named, id string) bool {
	asked := len(c.waiting[hashed(named)]) > 0 || c.pending(named)
	if asked && !c.frontier.takeBytes(len(id)+waitBytes, 0) || !asked && !c.frontier.addCanonical(named, id) {
		return false
	}
	c.wait(id, named)
	return true
}

// store stores a page that gave content.
func (c *crawler) store(ctx context.Context, v visit, level int) error {
	doc := v.doc
	doc.SourceID, doc.URL, doc.VersionToken = v.id, v.id, v.token
	doc.Title, doc.MediaType = clip(doc.Title, maxTitleBytes), clip(doc.MediaType, maxTitleBytes)
	doc.Links, doc.Memo = v.outline.links, failureMemo{}.memo()
	if v.namesAnother() { // the canonical page may have a document at the next crawl; a 304 would not name it
		doc.VersionToken = noValidators
	}
	c.follow(v.outline.links, level)
	if before, _ := c.fetch.storedBefore(v.id); before.VersionToken == "" || before.ContentHash != doc.ContentHash {
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

// followStored follows a page's links: the stored links where the page has not changed.
func (c *crawler) followStored(ctx context.Context, v visit, level int) error {
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
		if c.frontier.seen.has(link) {
			continue
		}
		if level+1 >= len(c.frontier.levels) {
			c.leaveTooDeep(link)
			continue
		}
		c.frontier.offer(link, level+1, func(link string) bool {
			may := c.allowed(link)
			if !may && c.covers(link) {
				c.leave(link, byRobots)
			}
			return may
		})
	}
}

// allowed tells whether a URL may be requested: the scope covers it, and robots.txt does not forbid it. Stored links may be
// older than both.
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
