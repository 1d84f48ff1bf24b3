package crawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
)

// maxHeldCrawls is how many crawls in a row keep what may be behind pages that fail and whose links are not known: neither one that
// fails for ever nor others at each crawl must keep for ever what nothing links to.
const maxHeldCrawls = 3

// unreadBytes is what a failure that is kept takes beside its URL and reason.
const unreadBytes = 64

// failureMemo is the memo of a document that failed.
type failureMemo struct {
	// Nothing says of a page that failed that nothing is stored of it, neither text nor links; Unread of another that its links are not
	// known.
	Nothing bool `json:"nothing,omitempty"`
	Unread  bool `json:"unread,omitempty"`
	// Crawls is how many crawls in a row have kept what may be behind such pages; 0 where the last one kept nothing.
	Crawls int `json:"crawls,omitempty"`
}

// memo is never nil: by it a document that the store had no room for is told from one of another configuration.
func (r failureMemo) memo() json.RawMessage {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has nothing that cannot be encoded
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

// fail notes why a page has no content. The links that its document has stay, so that one page that cannot
// be read does not make everything behind it look gone.
func (c *crawler) fail(ctx context.Context, v visit, level int) error {
	switch v.fail.kind {
	case gone:
		c.noteGone(v.id)
		return nil
	case outside, disallowed:
		c.result.Skipped++
		return nil
	}
	c.opt.Logger.Debug("page failed", "url", secret.URL(v.id), "err", v.fail)
	c.addDocument(v.id)
	if v.entry.url != v.id {
		c.frontier.remember(c.undecided, v.entry.url)
	}
	c.frontier.remember(c.textless, v.id)
	if c.storedBefore(v.id).VersionToken != "" { // what is stored of it is found until it is read again
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

// isUnread tells whether a page that failed has links that are not known, behind which may be what the crawl does not find. Those of a
// new page are not. Those of a document without token and hash may be of another text: the store had no room for it or has given it up,
// or the configuration has changed.
func (c *crawler) isUnread(v visit) bool {
	before, known := c.known[v.id]
	switch {
	case v.outlined || v.leaf || c.heldBefore >= maxHeldCrawls:
		return false
	case !known || c.deleted.has(v.id):
		return v.fail.kind == unanswered
	}
	return before.VersionToken == "" && (before.ContentHash == "" || failureMemoOf(before).Unread)
}

// isNothing tells whether nothing is stored of a page but that it failed.
func (c *crawler) isNothing(id string) bool {
	before, known := c.known[id]
	return !known || c.deleted.has(id) || before.ContentHash != "" && failureMemoOf(before).Nothing
}

// storeUnread stores a failure, and that so many crawls in a row have kept what may be behind such pages. The next crawl takes that of a
// new page for any other.
func (c *crawler) storeUnread(ctx context.Context, u unread, crawls int) error {
	links, err := c.storedLinks(ctx, u.id)
	if err != nil {
		return err
	}
	nothing := c.isNothing(u.id)
	return c.storeFailure(ctx, u.id, u.reason, links, failureMemo{Nothing: nothing, Unread: !nothing, Crawls: crawls})
}

// storeUnreads ends a crawl whose deletions are done: what it kept has been kept by one more. Where it kept nothing the row ends.
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
	hash := hashOfFailure(memo, reason, links)
	if before := c.storedBefore(id); before.VersionToken == "" && before.ContentHash == hash {
		c.unchanged() // stored already, with this very reason
		return nil
	}
	c.result.Failed++
	return c.sink.Put(ctx, worker.Document{SourceID: id, URL: id, Links: links, Memo: memo, Err: reason, ContentHash: hash})
}

// storedLinks are those of a document that was stored before the crawl and is not deleted.
func (c *crawler) storedLinks(ctx context.Context, id string) ([]string, error) {
	if _, known := c.known[id]; !known || c.deleted.has(id) {
		return nil, nil
	}
	return c.sink.Links(ctx, id)
}

// noteGone notes that a page says it is gone.
func (c *crawler) noteGone(id string) {
	if _, ok := c.known[id]; !ok || c.deleted.has(id) {
		return
	}
	c.deleted.add(id)
	c.fetch.forget(id)
	c.gone = append(c.gone, id)
}

// hashOfFailure tells a failure that is stored already from a new one.
func hashOfFailure(memo json.RawMessage, reason string, links []string) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	_ = enc.Encode(memo)
	_ = enc.Encode(reason)
	_ = enc.Encode(links)
	return hex.EncodeToString(h.Sum(nil))
}

// heldBefore is that of all: the last crawl has marked all the pages that it failed to read, and those that it did not come to.
func heldBefore(known map[string]worker.Known) (most int) {
	for _, k := range known {
		most = max(most, failureMemoOf(k).Crawls)
	}
	return most
}
