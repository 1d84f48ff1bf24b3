package crawl

import (
	"context"
	"net/url"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
)

// settle draws the consequences of one visit: for its document, and for the frontier.
func (c *crawler) settle(ctx context.Context, v visit, level int) error {
	if ctx.Err() != nil {
		return stopped(ctx, nil)
	}
	c.settled++
	if !v.duplicate {
		if err := c.tooSilent(v.fail); err != nil {
			return err
		}
	}
	if err := c.record(ctx, v, level); err != nil {
		return err
	}
	c.frontier.remember(c.settledURLs, v.entry.url)
	c.answer(v.entry.url)
	return nil
}

// answer settles the pages that wait for the one that they named: it has a document, or they are to be taken for themselves.
func (c *crawler) answer(named string) {
	key := hashed(named)
	for _, id := range c.waiting[key] {
		c.frontier.left += len(id) + waitBytes
		if !c.docs.has(named) {
			c.frontier.again(id)
		}
	}
	delete(c.waiting, key)
}

// found notes a document.
func (c *crawler) found(id string) {
	if !c.docs.has(id) {
		c.frontier.remember(c.docs, id)
		c.ids += len(id)
	}
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
	case v.notModified:
		c.found(v.id)
		c.unchanged()
		return c.onward(ctx, v, level)
	default:
		c.found(v.id)
		return c.store(ctx, v, level)
	}
}

// standsFor tells whether the page that v names as canonical takes v's place: it has a document, or is read next. If that comes
// to nothing, v is read again for itself.
func (c *crawler) standsFor(v visit) bool {
	named := v.outline.canonical
	if named == "" || named == v.id {
		return false
	}
	if c.docs.has(named) {
		return true
	}
	if c.settledURLs.has(named) || !c.allowed(named) {
		return false
	}
	if c.waitsFor(named, v.id) {
		return true
	}
	if c.known[named].VersionToken == "" {
		return false
	}
	// There is no memory to read it now: as it is stored it is better than v under another name beside it.
	c.found(named)
	c.result.Held++
	return true
}

// waitsFor has a page wait for the canonical one, which is read next unless another waits for it already. It is false where there is
// no memory for that.
func (c *crawler) waitsFor(named, id string) bool {
	key := hashed(named)
	asked := len(c.waiting[key]) > 0
	if asked && !c.frontier.takes(len(id)+waitBytes, 0) || !asked && !c.frontier.stand(named, id) {
		return false
	}
	c.waiting[key] = append(c.waiting[key], id)
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
		Chunks:       v.page.Chunks,
	}
	c.follow(v.outline.links, level)
	if before := c.known[v.id]; before.VersionToken == "" || before.ContentHash != doc.ContentHash {
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

// fail notes why a page has no content. The links that its document has stay, so that one page that cannot
// be read does not make everything behind it look gone.
func (c *crawler) fail(ctx context.Context, v visit, level int) error {
	switch v.fail.kind {
	case gone:
		return c.gone(ctx, v.id)
	case outside, disallowed:
		c.result.Skipped++
		return nil
	}
	_, before := c.known[v.id]
	c.found(v.id)
	links := v.outline.links
	if !v.outlined && before {
		var err error
		if links, err = c.sink.Links(ctx, v.id); err != nil {
			return err
		}
	}
	if v.fail.kind == unanswered && !before {
		c.blind = true
	}
	c.opt.Logger.Debug("page failed", "url", secret.URL(v.id), "err", v.fail)
	c.follow(links, level)
	reason := clip(v.fail.Error(), maxErrBytes)
	doc := worker.Document{SourceID: v.id, URL: v.id, Links: links, Err: reason, ContentHash: hashOfFailure(reason, links)}
	if known := c.known[v.id]; known.VersionToken == "" && known.ContentHash == doc.ContentHash {
		c.unchanged() // stored already, with this very reason
		return nil
	}
	c.result.Failed++
	return c.sink.Put(ctx, doc)
}

// gone deletes the document of a page that says it is no more.
func (c *crawler) gone(ctx context.Context, id string) error {
	if _, ok := c.known[id]; !ok || c.deleted.has(id) {
		return nil
	}
	c.deleted.add(id)
	c.result.Deleted++
	return c.sink.Delete(ctx, id)
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
