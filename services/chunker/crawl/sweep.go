package crawl

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
)

// sweep deletes the documents that this crawl did not find.
func (c *crawler) sweep(ctx context.Context) error {
	var lost, nothing []string
	for _, id := range slices.Sorted(maps.Keys(c.known)) {
		switch {
		case c.docs.has(id) || c.fetch.isDeleted(id):
		case c.isNothing(id):
			nothing = append(nothing, id)
		default:
			lost = append(lost, id)
		}
	}
	var held []string
	switch {
	case c.hasUnread:
		held, lost = c.hold(lost, c.cfg.maxPages(), maxURLBytes, "a page failed that may lead to them")
	case c.result.Truncated:
		held, lost = c.hold(lost, c.cfg.maxPages()-len(c.docs), maxURLBytes-c.ids, c.result.Bound)
	}
	lost = append(lost, c.stillGone()...)
	if err := c.guardDeletions(ctx, lost); err != nil {
		return err
	}
	if err := c.deleteAll(ctx, lost); err != nil {
		return err
	}
	if err := c.storeUnreads(ctx, len(held) > 0); err != nil {
		return err
	}
	if err := c.endRow(ctx, held); err != nil {
		return err
	}
	return c.deleteAll(ctx, nothing) // their memos may be the only record of how many crawls in a row have held deletions back
}

// stillGone are the documents whose pages said that they are gone, and that were not found later under another URL.
func (c *crawler) stillGone() []string {
	return slices.DeleteFunc(c.gone, c.docs.has)
}

// guardDeletions fails a crawl that would delete suspiciously many of the documents that are stored under this configuration and that
// a search may find: a site that answers "we are back soon", or nothing but 404, has not lost its pages.
func (c *crawler) guardDeletions(ctx context.Context, lost []string) error {
	found := func(k worker.Known) int {
		elsewhere := k.VersionToken+k.ContentHash == "" && k.Memo == nil
		if elsewhere || failureMemoOf(k).Nothing {
			return 0
		}
		return 1
	}
	all, gone := 0, 0
	for _, k := range c.known {
		all += found(k)
	}
	for _, id := range lost {
		gone += found(c.known[id])
	}
	return source.GuardDeletions(ctx, c.sink, c.opt.Connector, gone, all, len(c.docs) == 0)
}

func (c *crawler) deleteAll(ctx context.Context, ids []string) error {
	for _, id := range ids {
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

// endRow resets the count of pages that failed, and that a truncated crawl did not reach: this crawl has held nothing back for
// them.
func (c *crawler) endRow(ctx context.Context, held []string) error {
	for _, id := range held {
		if c.hasUnread || failureMemoOf(c.known[id]).Crawls == 0 {
			continue
		}
		if ctx.Err() != nil {
			return stopped(ctx, nil)
		}
		if err := c.storeUnread(ctx, unread{id, "it failed before, and the crawl did not come to it again"}, 0); err != nil {
			return err
		}
	}
	return nil
}

// hold separates the lost documents that the crawl may only not have reached, within a number and bytes, from the others. A
// truncated crawl may hold as many as max_pages and the memory of the next crawl leave; where max_pages was the bound it holds
// none, so that the index is what max_pages lets in. A crawl with unread pages may hold as many again as it found: all that one
// earlier crawl left.
func (c *crawler) hold(lost []string, most, mostBytes int, because string) (held, others []string) {
	bytes := 0
	for _, id := range lost {
		lookedAt := c.appliedURLs.has(id) && !c.undecided.has(id) && !c.pending(id)
		if len(held) >= most || bytes+len(id) > mostBytes || lookedAt || !c.allowed(id) {
			others = append(others, id)
			continue
		}
		held = append(held, id)
		bytes += len(id)
	}
	c.result.Held += len(held)
	if len(held) > 0 {
		c.opt.Logger.Warn("documents that the crawl did not come to are kept", "documents", len(held), "because", because)
	}
	return held, others
}

// truncated notes that the site has more pages than the crawl may read. The first bound that is noted is kept.
func (c *crawler) truncated(bound string) {
	if !c.result.Truncated {
		c.result.Truncated, c.result.Bound = true, bound+smaller
	}
}

// smaller is the advice about a crawl that is too large.
const smaller = "crawl less of the site (path_prefix, ignore_query, max_depth), or give its parts connectors of their own, each with a path_prefix"

// limit is the bound that allows the crawl no further page, whatever the current visits give; "" where it may go on.
func (c *crawler) limit(underWay int) string {
	most := c.cfg.maxPages()
	switch {
	case len(c.docs)+underWay >= most:
		return fmt.Sprintf("the site has more than the %d documents of max_pages: raise it (at most %d), or ", most, MaxMaxPages)
	case c.applied+underWay >= maxFetches(most):
		return fmt.Sprintf("%d pages were read, as many as max_pages %d allows, and only %d gave a document: ", c.applied, most, len(c.docs))
	case c.ids+(underWay+1)*maxSourceIDBytes > maxURLBytes:
		return fmt.Sprintf("the addresses of the documents take more memory than a crawl has for them, %d bytes: ", maxURLBytes)
	}
	return ""
}

// leftOut notes pages that the frontier had to leave out.
func (c *crawler) leftOut() {
	switch {
	case c.frontier.noMemory:
		c.truncated(fmt.Sprintf("the addresses that waited to be read take more memory than a crawl has for them, %d bytes: ", maxURLBytes))
	case c.frontier.full:
		c.truncated(fmt.Sprintf("the site has more links than max_pages %d lets be looked at: ", c.cfg.maxPages()))
	}
}
