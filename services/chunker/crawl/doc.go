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
// The stored documents (Sink.Known, Sink.Links) make the crawl incremental: a page that has not changed costs a conditional
// request, and its stored links replace those of the body that was not sent.
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
// The links of a failed page are not known in three cases. The page is new and gave no answer: pages behind it are kept for one
// crawl. Or the store had no room for the page or gave it up, perhaps because its links are too many. Or the configuration has
// changed since. In the last two cases pages behind it are kept until the page is read, and need not be kept any more. After
// maxHeldCrawls in a row that kept pages behind any such page, new or not, the next crawl keeps none: a site may have pages
// that are new at each crawl, and fail. A page that is deleted by mistake is stored again by the next crawl that reaches it.
// The memos of failed pages count these crawls in a row. They are stored when the crawl has ended, so that an interrupted crawl
// counts for nothing; it may begin the row again.
//
// A crawl that would delete suspiciously many documents deletes none, and fails (source.GuardDeletions).
//
// Pages without an answer fail alone as long as the start page answers, which is requested again after each MaxSilence of them
// in a row. Where the start page does not answer, the site is down, and the crawl ends without further deletions.
//
// A page that names another page of the crawl as canonical has no document of its own: its canonical page, or the page to which
// that redirects or which it names in turn, is read in its place, at once. The page stands for itself where its canonical page
// has no text: that is gone, noindex, outside the scope, or fails. (The earlier text of a failing canonical page replaces pages
// that are not stored, for one crawl.) Of pages that name each other in a circle one stands for itself, and for the others.
package crawl
