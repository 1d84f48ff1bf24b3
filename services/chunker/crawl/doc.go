// Package crawl reads a web site: from a start URL, breadth first, within the site's host.
//
//	start URL ─▶ frontier ─▶ visit (several at once) ─▶ apply (one at a time, in order) ─▶ Sink
//	                ▲          robots, fetch,              Put, Touch, Unchanged, Delete
//	                │          outline, Extract              │
//	                └───────────── links, one level deeper ──┘
//
// Pages are fetched concurrently but applied strictly in frontier order, and only applying adds to the
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
//	404, 410                                  Deleted, once the whole crawl has ended without error
//	anything that cannot be read              Put with Err; its stored links are followed
//	nothing, because no link leads there,     Deleted, once the whole crawl has ended without error
//	or max_depth, robots.txt or noindex forbid
//	nothing, because the crawl had to end     kept, as far as max_pages has room for it (Result.Held)
//	nothing, and a page that may lead to it   kept, unless the crawl looked at its URL or may not ask for it (Result.Held)
//	failed whose links are not known
//	nothing, and it has failed ever since     Deleted: there is nothing stored of it
//	it was new
//
// The links of a page that failed are not known where it is new and gave no answer: what may be behind it is kept by one crawl. Nor are
// they where the store had no room for the page or gave it up, for its links may be too many to be written then, and where the
// configuration has changed since: what may be behind such pages is kept until they are read. Where these pages are read, nothing need
// be kept. After maxHeldCrawls in a row that kept something for any such page, new or not, the next one keeps nothing: a site may have
// pages that are new at each crawl, and fail. What it deletes by mistake is stored again by the next crawl that comes to it. The
// failures themselves say how many crawls in a row it were. They are stored when the crawl has ended, so that one that dies on the way
// counts for nothing; it may begin the row again.
//
// A crawl that would delete suspiciously many deletes none, and fails (source.GuardDeletions).
//
// Pages without an answer fail alone as long as the start page answers, which is asked again for each MaxSilence of them in a row.
// Where it does not, the site is down, and the crawl ends without deleting anything more.
//
// A page that names another of the crawl as canonical gives no document of its own: that one, or what it redirects to or names in turn, is
// read in its place, at once. It stands for itself where there is no text in that place: the other is gone, not to be indexed, outside, or
// fails. (An earlier text of one that fails stands for pages that are not stored, for one crawl.) Of pages that name each other in a circle
// one stands for itself, and for the others.
package crawl
