package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

// visit is the result of reading one page. Reading changes nothing in the crawl's state, so that several pages are read at the
// same time.
type visit struct {
	entry entry
	// id is the source id: the canonical URL of the response, after redirects.
	id string
	// fail is why there is no content. There may be an outline nevertheless.
	fail        *failure
	notModified bool
	// outlined says that outline was read from a fresh body.
	outlined bool
	outline  outline
	// leaf says that the page has a fresh body of a kind without links.
	leaf  bool
	token string
	doc   worker.Document // of Extract
	// duplicate says that the page was known to be applied before it was requested.
	duplicate bool
}

// namesAnother tells whether a page names another URL than its own as canonical.
func (v visit) namesAnother() bool { return v.outline.canonical != "" && v.outline.canonical != v.id }

// visit reads a page within the scope. Its error is ctx's. A page that makes its reader panic fails alone.
func (c *crawler) visit(ctx context.Context, e entry, in *visitRoom) (v visit, err error) {
	broken := caught.Do(func() error {
		v, err = c.readPage(ctx, e, in)
		return nil
	})
	if broken != nil {
		c.opt.Logger.Error("a page had its reader panic; it is stored with this error", "url", secret.URL(e.url), "err", broken)
		return visit{entry: e, id: e.url, fail: &failure{kind: unreadable, url: e.url, err: broken}}, nil
	}
	return v, err
}

func (c *crawler) readPage(ctx context.Context, e entry, in *visitRoom) (visit, error) {
	defer in.decide()
	u, err := url.Parse(e.url)
	if err != nil {
		return visit{entry: e, id: e.url, fail: &failure{kind: refused, url: e.url, err: err}}, nil
	}
	got, err := c.fetch.page(ctx, u, c.within, in)
	in.decide()
	if err != nil {
		return failed(ctx, e, err)
	}
	return c.examine(ctx, e, got, in)
}

// within checks that a redirect stays where the crawl may go.
func (c *crawler) within(from, to *url.URL) (*url.URL, error) {
	to, ok := c.scope.admit(to)
	if !ok {
		return nil, fmt.Errorf("%s redirects to %s, which is outside of what is crawled", withoutSecrets(from), withoutSecrets(to))
	}
	return to, nil
}

func failed(ctx context.Context, e entry, err error) (visit, error) {
	f, is := errors.AsType[*failure](err)
	if ctx.Err() != nil || !is {
		return visit{}, stopped(ctx, err)
	}
	return visit{entry: e, id: f.url, fail: f}, nil
}

// examine reads a response: its links, whether it may be indexed, and its content.
func (c *crawler) examine(ctx context.Context, e entry, got *answer, in *visitRoom) (visit, error) {
	v := visit{entry: e, id: c.identity(got.url), notModified: got.notModified, token: tokenOf(got.header)}
	var header outline
	header.addHeaderDirectives(got.header, c.robotsToken)
	if v.notModified {
		v.outline = header
		return v, nil
	}
	text, err := decode(got.body, got.header.Get("Content-Type"), c.opt.MaxBodyBytes)
	got.body = nil // text may be a copy
	if room.Needed(int64(len(text.body))) {
		in.resize(room.Cost(int64(len(text.body))))
	}
	if err != nil {
		v.fail = &failure{kind: unreadable, url: v.id, err: err}
		return v, nil
	}
	if text.html {
		read, err := c.outlineOf(ctx, text.body, got.url)
		if ctx.Err() != nil {
			return visit{}, stopped(ctx, err)
		}
		if err != nil {
			v.fail = &failure{kind: unreadable, url: v.id, err: fmt.Errorf("read %s: %w", secret.URL(v.id), err)}
			return v, nil
		}
		v.outlined, v.outline = true, read
	}
	v.leaf = !text.html
	v.outline.noindex = v.outline.noindex || header.noindex
	v.outline.nofollow = v.outline.nofollow || header.nofollow
	if v.outline.nofollow {
		v.outline.links = nil
	}
	if v.outline.noindex {
		return v, nil
	}
	doc, err := c.extract(ctx, text, v.id)
	if ctx.Err() != nil {
		return visit{}, stopped(ctx, err)
	}
	if err != nil {
		v.fail = &failure{kind: unreadable, url: v.id, err: err}
	}
	doc.ContentHash = hashOf(doc)
	v.doc = doc
	in.resize(chunk.Bytes(doc.Chunks))
	return v, nil
}

// extract turns a panic into the page's own failure: it must not end the other crawls of the process.
func (c *crawler) extract(ctx context.Context, text content, id string) (doc worker.Document, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.opt.Logger.Error("extracting a page panicked; the page is stored with this error, report it with its URL",
				"url", secret.URL(id), "err", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("extracting the content panicked: %v", p)
		}
	}()
	return c.opt.Extract(ctx, text.body, text.contentType, id)
}

// identity is the source id of a page: its URL, without the query if the connector ignores queries.
func (c *crawler) identity(u *url.URL) string {
	if c.cfg.IgnoreQuery && u.RawQuery != "" {
		bare := *u
		bare.RawQuery = ""
		u = &bare
	}
	return u.String()
}

// stopped returns why the crawl's context ended, or err if it did not end.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("crawl stopped: %w", context.Cause(ctx))
	}
	return err
}
