package crawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
)

// maxHeldCrawls is how many crawls in a row keep what may be behind pages that were read once, whose links are not stored, and that
// fail: a page that fails for ever must not keep for ever what nothing links to.
const maxHeldCrawls = 3

// unreadBytes is what a failure that is kept takes beside its URL and reason.
const unreadBytes = 64

// failure hashes begin with failedHash. Those of pages whose links are not known begin with unreadHash, followed by how many crawls in
// a row have kept what may be behind such pages.
const (
	failedHash = "failed:"
	unreadHash = "unread:"
)

// unread is a page that failed and whose links are not known.
type unread struct {
	id, reason string
	// crawls counts those in a row that kept what may be behind it; 0 for a page that is new, which one crawl does.
	crawls int
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
	c.opt.Logger.Debug("page failed", "url", secret.URL(v.id), "err", v.fail)
	c.found(v.id)
	if v.entry.url != v.id {
		c.frontier.remember(c.undecided, v.entry.url)
	}
	c.frontier.remember(c.textless, v.id)
	if c.before(v.id).VersionToken != "" { // what is stored of it is found until it is read again
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
	if crawls, is := c.isUnread(v); is {
		c.blind = true
		u := unread{v.id, reason, crawls}
		if bytes := len(u.id) + len(u.reason) + unreadBytes; c.frontier.left >= bytes {
			c.frontier.left -= bytes
			c.unread = append(c.unread, u)
			return nil
		}
		return c.storeUnread(ctx, u)
	}
	return c.storeFailure(ctx, v.id, reason, links, hashOfFailure(reason, links))
}

// isUnread tells whether a page that failed has links that are not known, behind which may be what the crawl does not find. Those of a
// new page are not. Those of a document without token and hash may be of another text: the store had no room for it or has given it up,
// or the configuration has changed.
func (c *crawler) isUnread(v visit) (crawls int, is bool) {
	before, known := c.known[v.id]
	switch {
	case v.outlined || v.leaf:
		return 0, false
	case !known || c.deleted.has(v.id):
		return 0, v.fail.kind == unanswered
	case before.VersionToken != "" || before.ContentHash != "" && !strings.HasPrefix(before.ContentHash, unreadHash):
		return 0, false
	}
	return c.heldBefore + 1, c.heldBefore < maxHeldCrawls
}

// storeUnread stores a failure after the crawl has kept what may be behind it. The next crawl takes a new page's for any other.
func (c *crawler) storeUnread(ctx context.Context, u unread) error {
	links, err := c.storedLinks(ctx, u.id)
	if err != nil {
		return err
	}
	hash := hashOfFailure(u.reason, links)
	if u.crawls > 0 {
		hash = fmt.Sprint(unreadHash, u.crawls, ":", strings.TrimPrefix(hash, failedHash))
	}
	return c.storeFailure(ctx, u.id, u.reason, links, hash)
}

func (c *crawler) storeFailure(ctx context.Context, id, reason string, links []string, hash string) error {
	if before := c.before(id); before.VersionToken == "" && before.ContentHash == hash {
		c.unchanged() // stored already, with this very reason
		return nil
	}
	c.result.Failed++
	return c.sink.Put(ctx, worker.Document{SourceID: id, URL: id, Links: links, Err: reason, ContentHash: hash})
}

// storedLinks are those of a document that was stored before the crawl and is not deleted.
func (c *crawler) storedLinks(ctx context.Context, id string) ([]string, error) {
	if _, known := c.known[id]; !known || c.deleted.has(id) {
		return nil, nil
	}
	return c.sink.Links(ctx, id)
}

// gone deletes the document of a page that says it is no more.
func (c *crawler) gone(ctx context.Context, id string) error {
	if _, ok := c.known[id]; !ok || c.deleted.has(id) {
		return nil
	}
	c.deleted.add(id)
	c.fetch.forget(id)
	c.result.Deleted++
	return c.sink.Delete(ctx, id)
}

// hashOfFailure tells a failure that is stored already from a new one.
func hashOfFailure(reason string, links []string) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	_ = enc.Encode(reason)
	_ = enc.Encode(links)
	return failedHash + hex.EncodeToString(h.Sum(nil))
}

// heldBefore is how many crawls in a row before this one have kept what may be behind pages that failed.
func heldBefore(known map[string]worker.Known) (most int) {
	for _, k := range known {
		var crawls int
		if n, _ := fmt.Sscanf(k.ContentHash, unreadHash+"%d:", &crawls); n == 1 {
			most = max(most, crawls)
		}
	}
	return most
}
