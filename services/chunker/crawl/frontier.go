package crawl

import "hash/maphash"

// frontier is the order in which pages are read: breadth first, and within a level in the order in which
// the pages before named them. It decides what max_pages keeps, so only applied pages may add to it.
//
// A spider trap makes endless URLs; therefore the frontier takes a bounded number of them, and of bytes. A page that has been
// read gives its bytes back; only the hash of its URL is kept.
type frontier struct {
	levels [][]entry
	// begun is how many pages of the current level have been taken.
	begun int
	// ahead are pages that are read before the rest of that level: canonical pages of pages that were just read, and pages
	// whose canonical page gave no text.
	ahead []entry
	seen  urls
	// room is how many more URLs may be considered, slots how many may be added.
	room, slots int
	// left is how many more bytes of memory the crawl may take for URLs.
	left int
	// full says that a URL was left out, noMemory that one was left out for its bytes.
	full, noMemory bool
}

// entry is a page to read.
type entry struct {
	url string
	// own says that the page stands for itself, whatever it names as canonical.
	own bool
}

// maxURLBytes bounds the memory of one crawl for URLs. No Room counts it: a crawl that held room until its end would wait for
// itself. Tests lower it.
var maxURLBytes = 32 << 20

const (
	// seenBytes is the memory of a URL in a set, entryBytes that of a page to read beside its URL, waitBytes that of a page
	// that waits for its canonical page.
	seenBytes  = 40
	entryBytes = 24
	waitBytes  = 144
	// reserve is the part of the memory that links may not take: there is always memory for the canonical page of a page that
	// was read.
	reserve = 32
)

// urls is a set of URLs by their hashes, because a URL may have 2 KB. Two URLs with the same hash, which no site can choose,
// count as one; in the largest crawls that happens once in tens of millions.
type urls map[uint64]struct{}

var seed = maphash.MakeSeed()

func hashed(url string) uint64 { return maphash.String(seed, url) }

func (u urls) add(url string) { u[hashed(url)] = struct{}{} }

func (u urls) has(url string) bool {
	_, ok := u[hashed(url)]
	return ok
}

// fetchesPerPage is how many requests a crawl may make for each document that it may store. The surplus is for redirects,
// duplicates, and pages that are gone or noindex.
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

// remember adds a URL to a set of read URLs, whose memory counts.
func (f *frontier) remember(set urls, url string) {
	if !set.has(url) {
		set.add(url)
		f.left -= seenBytes
	}
}

// offer adds a URL to a level of the crawl if it is new, allowed is true of it, and there is room.
func (f *frontier) offer(url string, level int, allowed func(string) bool) {
	if f.seen.has(url) {
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
	if !f.takeBytes(bytes, maxURLBytes/reserve) {
		return
	}
	f.room--
	f.seen.add(url)
	if may {
		f.slots--
		f.levels[level] = append(f.levels[level], entry{url: url})
	}
}

// next takes the next page of a level. Its URL's bytes are given back when it has been read.
func (f *frontier) next(level int) (e entry, ok bool) {
	if len(f.ahead) > 0 {
		e, f.ahead[0] = f.ahead[0], entry{}
		f.ahead = f.ahead[1:]
		f.left += entryBytes
		return e, true
	}
	if f.begun == len(f.levels[level]) {
		return entry{}, false
	}
	e, f.levels[level][f.begun] = f.levels[level][f.begun], entry{}
	f.begun++
	return e, true
}

// hasMore tells whether pages of a level are still to be read.
func (f *frontier) hasMore(level int) bool { return len(f.ahead) > 0 || f.begun < len(f.levels[level]) }

// giveBack gives back the bytes of a page that has been read.
func (f *frontier) giveBack(e entry) { f.left += len(e.url) }

// endLevel gives back the bytes of a level that has been read.
func (f *frontier) endLevel(level int) {
	f.left += entryBytes * len(f.levels[level])
	f.levels[level], f.begun = nil, 0
}

// takeBytes takes bytes from the crawl's memory, if spare bytes are left after it.
func (f *frontier) takeBytes(bytes, spare int) bool {
	if bytes > f.left-spare {
		f.full, f.noMemory = true, true
		return false
	}
	f.left -= bytes
	return true
}

// addCanonical adds a canonical page ahead of the current level, and counts the page that waits for it. Each page adds at most one,
// so it needs no slot.
func (f *frontier) addCanonical(named, waiting string) bool {
	bytes := len(named) + entryBytes
	if !f.seen.has(named) {
		bytes += seenBytes
	}
	if !f.takeBytes(bytes+len(waiting)+waitBytes, 0) {
		return false
	}
	f.seen.add(named)
	f.ahead = append(f.ahead, entry{url: named})
	return true
}

// readAgain has a URL read again next, for itself.
func (f *frontier) readAgain(url string) {
	f.left -= len(url) + entryBytes
	f.ahead = append(f.ahead, entry{url: url, own: true})
}
