package crawl

import (
	"context"
	"encoding/json"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
)

// maxHeldCrawls is how many crawls in a row may keep pages behind failed pages whose links are not known: neither a page that
// fails for ever nor other pages at each crawl may keep unlinked documents for ever.
const maxHeldCrawls = 3

// unreadBytes is the memory of an unread failure beside its URL and reason.
const unreadBytes = 64

// failureMemo is the memo of a document that failed.
type failureMemo struct {
	// Nothing says that nothing is stored of the failed page, neither text nor links; Unread, that its links are not known.
	Nothing bool `json:"nothing,omitempty"`
	Unread  bool `json:"unread,omitempty"`
	// Crawls counts the crawls in a row that have kept pages behind such pages; 0 where the last one kept none.
	Crawls int `json:"crawls,omitempty"`
}

// memo is never nil: it distinguishes a document that the store had no room for from a document of another configuration.
func (r failureMemo) memo() json.RawMessage {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has only fields that can be encoded
	}
	return data
}

// failureMemoOf is the failureMemo of a stored page.
func failureMemoOf(k worker.Known) (r failureMemo) {
	if k.VersionToken != "" || json.Unmarshal(k.Memo, &r) != nil {
		return failureMemo{}
	}
	return r
}

// unread is a page that failed and whose links are not known.
type unread struct{ id, reason string }

// fail notes why a page has no content. The links of its stored document stay, so that the failure of one page does not make
// all pages behind it look gone.
func (c *crawler) fail(ctx context.Context, v visit, level int) error {
	switch v.fail.kind {
	case gone:
		c.noteGone(v.id)
		c.leave(v.id, notThere)
		return nil
	case outOfScope:
		c.result.Skipped++
		c.leave(v.entry.url, offSite)
		return nil
	case disallowed:
		c.result.Skipped++
		c.leave(v.id, byRobots)
		return nil
	}
	c.opt.Logger.Debug("page failed", "url", secret.URL(v.id), "err", v.fail)
	c.addDocument(v.id)
	if v.entry.url != v.id {
		c.frontier.remember(c.undecided, v.entry.url)
	}
	c.frontier.remember(c.textless, v.id)
	if c.tokenBefore(v.id) != "" { // its stored text can be found until the page is read again
		c.frontier.remember(c.old, v.id)
	}
	links := v.outline.links
	if !v.outlined {
		var err error
		if links, err = c.storedLinks(ctx, v.id); err != nil {
			return err
		}
	}
	c.follow(links, level)
	reason := clip(v.fail.Error(), maxErrBytes)
	if c.isUnread(v) {
		c.hasUnread = true
		u := unread{v.id, reason}
		if bytes := len(u.id) + len(u.reason) + unreadBytes; c.frontier.left >= bytes {
			c.frontier.left -= bytes
			c.unread = append(c.unread, u)
			return nil
		}
		return c.storeUnread(ctx, u, c.heldBefore+1)
	}
	return c.storeFailure(ctx, v.id, reason, links, failureMemo{Nothing: c.isNothing(v.id) && len(links) == 0})
}

// isUnread tells whether a failed page has links that are not known, behind which may be pages that the crawl does not find.
// The links of a new page are not known. Those of a document without token and hash may be of another text: the store had no
// room for it or has given it up, or the configuration has changed.
func (c *crawler) isUnread(v visit) bool {
	before, known := c.fetch.storedBefore(v.id)
	switch {
	case v.outlined || v.leaf || c.heldBefore >= maxHeldCrawls:
		return false
	case !known:
		return v.fail.kind == unanswered
	}
	return before.VersionToken == "" && (before.ContentHash == "" || failureMemoOf(before).Unread)
}

// isNothing tells whether only the failure of a page is stored.
func (c *crawler) isNothing(id string) bool {
	before, known := c.fetch.storedBefore(id)
	return !known || before.ContentHash != "" && failureMemoOf(before).Nothing
}

// storeUnread stores a failure, with the number of crawls in a row that have kept pages behind such pages. The next crawl
// treats the failure of a new page as that of any other.
func (c *crawler) storeUnread(ctx context.Context, u unread, crawls int) error {
	links, err := c.storedLinks(ctx, u.id)
	if err != nil {
		return err
	}
	nothing := c.isNothing(u.id)
	return c.storeFailure(ctx, u.id, u.reason, links, failureMemo{Nothing: nothing, Unread: !nothing, Crawls: crawls})
}

// storeUnreads ends a crawl after its deletions: it counts as one more that kept pages. Where it kept none the row ends.
func (c *crawler) storeUnreads(ctx context.Context, kept bool) error {
	crawls := 0
	if kept {
		crawls = c.heldBefore + 1
	}
	for _, u := range c.unread {
		if ctx.Err() != nil {
			return stopped(ctx, nil)
		}
		if err := c.storeUnread(ctx, u, crawls); err != nil {
			return err
		}
	}
	return nil
}

func (c *crawler) storeFailure(ctx context.Context, id, reason string, links []string, r failureMemo) error {
	memo := r.memo()
	hash := hashOfJSON(memo, reason, links) // distinguishes a stored failure from a new one
	if before, _ := c.fetch.storedBefore(id); before.VersionToken == "" && before.ContentHash == hash {
		c.unchanged() // stored already, with the same reason
		return nil
	}
	c.result.Failed++
	return c.sink.Put(ctx, worker.Document{SourceID: id, URL: id, Links: links, Memo: memo, Err: reason, ContentHash: hash})
}

// storedLinks are the links of a document that was stored before the crawl and is not deleted.
func (c *crawler) storedLinks(ctx context.Context, id string) ([]string, error) {
	if _, known := c.fetch.storedBefore(id); !known {
		return nil, nil
	}
	return c.sink.Links(ctx, id)
}

// noteGone notes that a page says it is gone.
func (c *crawler) noteGone(id string) {
	if _, known := c.fetch.storedBefore(id); known {
		c.fetch.deleted.Store(hashed(id), nil)
		c.gone = append(c.gone, id)
	}
}

// heldBefore is the count of all memos: the last crawl has marked all pages that it failed to read, and those that it did not
// reach.
func heldBefore(known map[string]worker.Known) (most int) {
	for _, k := range known {
		most = max(most, failureMemoOf(k).Crawls)
	}
	return most
}
