package crawl

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

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
		c.result.Held += len(lost)
		c.opt.Logger.Warn("documents that no link leads to are kept until the next crawl, because a new page failed that may lead to them",
			"documents", len(lost))
		return nil
	}
	if c.result.Truncated {
		lost = c.hold(lost)
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

// hold keeps those of lost that the crawl may only not have come to, as many as max_pages and the memory of the next crawl have
// room for, and returns the others. Where max_pages was the bound there is no room, so that the index is what it lets in.
func (c *crawler) hold(lost []string) (others []string) {
	undecided := urls{} // their canonical pages were not read
	for _, ids := range c.waiting {
		for _, id := range ids {
			undecided.add(id)
		}
	}
	held, bytes, most := 0, c.ids, c.cfg.maxPages()-len(c.docs)
	for _, id := range lost {
		lookedAt := c.settledURLs.has(id) && !undecided.has(id)
		if held == most || bytes+len(id) > maxURLBytes || lookedAt || !c.allowed(id) {
			others = append(others, id)
			continue
		}
		held++
		bytes += len(id)
	}
	c.result.Held += held
	if held > 0 {
		c.opt.Logger.Warn("documents that the crawl did not come to are kept, because it had to end before the site did",
			"documents", held, "because", c.result.Bound)
	}
	return others
}

// truncated notes that the site has more than the crawl may read. What is noted first stays.
func (c *crawler) truncated(bound string) {
	if !c.result.Truncated {
		c.result.Truncated, c.result.Bound = true, bound+smaller
	}
}

// smaller is what to do about a crawl that is too large.
const smaller = "crawl less of the site (path_prefix, ignore_query, max_depth), or give its parts connectors of their own, each with a path_prefix"

// limit is the bound that lets the crawl visit no page more, whatever those under way turn out to be; "" where it may.
func (c *crawler) limit(underWay int) string {
	most := c.cfg.maxPages()
	switch {
	case len(c.docs)+underWay >= most:
		return fmt.Sprintf("the site has more than the %d documents of max_pages: raise it (at most %d), or ", most, MaxMaxPages)
	case c.settled+underWay >= maxFetches(most):
		return fmt.Sprintf("%d pages were read, as many as max_pages %d allows, and only %d gave a document: ", c.settled, most, len(c.docs))
	case c.ids+(underWay+1)*maxSourceIDBytes > maxURLBytes:
		return fmt.Sprintf("the addresses of the documents take more memory than a crawl has for them, %d bytes: ", maxURLBytes)
	}
	return ""
}

// leftOut notes what the frontier had to leave out.
func (c *crawler) leftOut() {
	switch {
	case c.frontier.noMemory:
		c.truncated(fmt.Sprintf("the addresses that waited to be read take more memory than a crawl has for them, %d bytes: ", maxURLBytes))
	case c.frontier.full:
		c.truncated(fmt.Sprintf("the site has more links than max_pages %d lets be looked at: ", c.cfg.maxPages()))
	}
}
