package crawl

import (
	"context"
	"maps"
	"net/url"
	"slices"

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
	c.settledURLs.add(v.entry.url)
	for _, url := range c.waiting[v.entry.url] {
		if c.docs.has(v.entry.url) {
			c.frontier.left += waitingBytes(v.entry.url, url)
		} else {
			c.frontier.again(url, level)
		}
	}
	delete(c.waiting, v.entry.url)
	return nil
}

// waitingBytes is the memory of a page that waits for the one that it named.
func waitingBytes(named, id string) int { return len(named) + len(id) + entryBytes }

// found notes a document.
func (c *crawler) found(id string) {
	if !c.docs.has(id) {
		c.docs.add(id)
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
	case !v.entry.own && c.standsFor(v, level):
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

// standsFor tells whether the page that v names as canonical takes v's place: it has a document, or will be
// asked for one. If that comes to nothing, v is read again for itself.
func (c *crawler) standsFor(v visit, level int) bool {
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
	c.frontier.offer(named, level, c.allowed)
	if !c.frontier.seen.has(named) || !c.frontier.takes(waitingBytes(named, v.id)) {
		return false
	}
	c.waiting[named] = append(c.waiting[named], v.id)
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

// sweep deletes the documents that this crawl did not come across.
func (c *crawler) sweep(ctx context.Context) error {
	var lost []string
	bytes := 0
	for _, id := range slices.Sorted(maps.Keys(c.known)) {
		bytes += len(id)
		if !c.docs.has(id) && !c.deleted.has(id) {
			lost = append(lost, id)
		}
	}
	if c.blind && len(lost) > 0 && bytes < maxURLBytes {
		c.result.Held = len(lost)
		c.opt.Logger.Warn("documents that no link leads to are kept until the next crawl, because a new page failed that may lead to them",
			"documents", len(lost))
		return nil
	}
	for _, id := range lost {
		if ctx.Err() != nil {
			return stopped(ctx, nil)
		}
		c.result.Deleted++
		if err := c.sink.Delete(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
