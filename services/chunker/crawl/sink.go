package crawl

import (
	"context"

	"github.com/echomind/sync/sdk/worker"
)

// Sink stores the documents of a crawl, and has those of earlier crawls. A crawl calls it from one goroutine at a time. Its
// errors end the crawl and are returned as they are.
type Sink interface {
	// Known returns what is stored of each document, by source id (a canonical URL).
	Known(ctx context.Context) (map[string]worker.Known, error)
	// Links returns the links stored with a document.
	Links(ctx context.Context, sourceID string) ([]string, error)
	// Put stores a document that is new, has changed, or could not be read.
	Put(ctx context.Context, doc worker.Document) error
	// Touch stores a document's links and version token; its chunks stay as they are.
	Touch(ctx context.Context, doc worker.Document) error
	// Delete removes a document.
	Delete(ctx context.Context, sourceID string) error
	// Unchanged counts documents that are stored already as they should be.
	Unchanged(n int)
	// DeletionsAllowed says whether a crawl may delete suspiciously much: see source.GuardDeletions.
	DeletionsAllowed(ctx context.Context) (bool, error)
}

// Extract turns a body into Title, MediaType, ContentHash and Chunks of its document; the crawl sets the other fields. Text of any
// kind comes as UTF-8, with "charset=utf-8" in contentType, whatever the page declares; anything else comes as it was sent.
// contentType may be empty or wrong. The hash is of title and main content, not of the raw body, so that a clock or a nonce in the
// page is no change; if it is empty, the crawl computes it from title and chunks. An error's text becomes the document's reason.
// Extract is called from several goroutines at once.
type Extract func(ctx context.Context, body []byte, contentType, url string) (worker.Document, error)

// Result says what a crawl did. After an error it covers what was done before.
type Result struct {
	// Start is the start page's canonical URL after redirects.
	Start string
	// Stored, Touched, Unchanged, Failed and Deleted count documents. Failed ones were stored with a reason.
	Stored, Touched, Unchanged, Failed, Deleted int
	// Skipped counts pages without a document of their own: duplicates of another page, noindex, forbidden by robots.txt,
	// redirected out of the site.
	Skipped int
	// LeftOut counts pages that a link led to and that have no document.
	LeftOut LeftOut
	// Truncated says that the site has more pages than max_pages (or the bounds derived from it, or the bound of the memory for
	// URLs) lets in. Bound names the bound, and what a person can do about it.
	Truncated bool
	Bound     string
	// Held counts the documents that no link led to and that were kept: a page that failed and whose links are not known may
	// lead to them, or the crawl was truncated before it reached them.
	Held int
}
