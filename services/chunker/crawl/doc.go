// Package crawl reads a web site: from a start URL, breadth first, within the site's host.
//
//	start URL ─▶ frontier ─▶ visit (several at once) ─▶ settle (one at a time, in order) ─▶ Sink
//	                ▲          robots, fetch,              Put, Touch, Unchanged, Delete
//	                │          outline, Extract              │
//	                └───────────── links, one level deeper ──┘
//
// Pages are fetched concurrently but settled strictly in frontier order, and only settling adds to the
// frontier. So what max_pages keeps depends on the site alone, never on which answer came first.
//
// What is known of a page already (Sink.Known, Sink.Links) makes the crawl incremental: a page that has
// not changed costs a conditional request, and its stored links stand in for the body that was not sent.
//
// What happens to a document:
//
//	the page answers                          the document is
//	304, or the same content as stored        Unchanged; Touched if only its links differ
//	new or other content                      Put
//	404, 410                                  Deleted at once
//	anything that cannot be read              Put with Err; its stored links are followed
//	nothing, because no link leads there,     Deleted, once the whole crawl has ended without error
//	or max_depth, robots.txt or noindex forbid
//	nothing, because the crawl had to end     kept, as far as max_pages has room for it (Result.Held)
//
// A page that names another of the crawl as canonical gives no document of its own: that one is read in its place, at once. It
// stands for itself where the other comes to nothing.
package crawl
