package crawl

import "hash/maphash"

// frontier is the order in which pages are read: breadth first, and within a level in the order in which
// the pages before named them. It decides what max_pages keeps, so only settled pages may add to it.
//
// A spider trap makes endless URLs; therefore the frontier takes a bounded number of them, and of bytes, whatever comes.
type frontier struct {
	levels [][]entry
	seen   urls
	// room is how many URLs may still be looked at, slots how many may still be added.
	room, slots int
	// left is how many bytes of memory the crawl may still take for URLs.
	left int
	full bool
}

// entry is a page to read.
type entry struct {
	url string
	// own says that the page is to be taken for itself whatever it names as canonical.
	own bool
}

// maxURLBytes bounds the memory that one crawl takes for URLs. No room of a process counts it: a crawl that held room for
// as long as it lasts would wait for itself. Tests lower it.
var maxURLBytes = 32 << 20

const (
	// seenBytes is what a URL takes in a set, entryBytes what a page to read takes beside its URL: its entry, and its places in
	// the sets of what is settled and what is a document.
	seenBytes  = 40
	entryBytes = 24 + 2*seenBytes
)

// urls is a set of URLs by their hashes: a URL may have 2 KB. Two that share one, which no site can choose, are taken for
// the same, once in tens of millions of the largest crawls.
type urls map[uint64]struct{}

var seed = maphash.MakeSeed()

func (u urls) add(url string) { u[maphash.String(seed, url)] = struct{}{} }

func (u urls) has(url string) bool {
	_, ok := u[maphash.String(seed, url)]
	return ok
}

// fetchesPerPage is how many requests a crawl may make for each document that it may yield. The surplus is
// for redirects, duplicates, and pages that are gone or not to be indexed.
const fetchesPerPage = 4

func maxFetches(maxPages int) int { return fetchesPerPage*maxPages + 100 }

func newFrontier(maxDepth, maxPages int) *frontier {
	return &frontier{
		levels: make([][]entry, maxDepth+1),
		seen:   urls{},
		slots:  maxFetches(maxPages),
		room:   4 * maxFetches(maxPages),
		left:   maxURLBytes,
	}
}

// mark notes a URL as seen without reading it.
func (f *frontier) mark(url string) { f.seen.add(url) }

// offer adds a URL to a level if it is new, allowed is true of it, and there is room.
func (f *frontier) offer(url string, level int, allowed func(string) bool) {
	if level >= len(f.levels) || f.seen.has(url) {
		return
	}
	if f.room == 0 || f.slots == 0 {
		f.full = true
		return
	}
	may, bytes := allowed(url), seenBytes
	if may {
		bytes += len(url) + entryBytes
	}
	if !f.takes(bytes) {
		return
	}
	f.room--
	f.seen.add(url)
	if may {
		f.slots--
		f.levels[level] = append(f.levels[level], entry{url: url})
	}
}

// takes tells whether the crawl may take so many bytes more.
func (f *frontier) takes(bytes int) bool {
	if bytes > f.left {
		f.full = true
		return false
	}
	f.left -= bytes
	return true
}

// again puts a URL that has been read once at the end of a level, to be taken for itself. Its bytes are taken already.
func (f *frontier) again(url string, level int) {
	f.levels[level] = append(f.levels[level], entry{url: url, own: true})
}
