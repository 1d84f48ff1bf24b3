package crawl

import "hash/maphash"

// frontier is the order in which pages are read: breadth first, and within a level in the order in which
// the pages before named them. It decides what max_pages keeps, so only applied pages may add to it.
//
// A spider trap makes endless URLs; therefore the frontier takes a bounded number of them, and of bytes, whatever comes. What
// has been read gives its bytes back; what is remembered of it is a hash.
type frontier struct {
	levels [][]entry
	// begun is how many pages of the level that is read have been taken.
	begun int
	// ahead are pages that come before the rest of that level: canonical ones that take the place of pages just read, and pages
	// whose canonical one came to nothing.
	ahead []entry
	seen  urls
	// room is how many URLs may still be looked at, slots how many may still be added.
	room, slots int
	// left is how many bytes of memory the crawl may still take for URLs.
	left int
	// full says that a URL was left out, noMemory that one was for its bytes.
	full, noMemory bool
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
	// seenBytes is what a URL takes in a set, entryBytes what a page to read takes beside its URL, waitBytes what one does that
	// waits for the page that it names as canonical.
	seenBytes  = 40
	entryBytes = 24
	waitBytes  = 144
	// reserve is the part of the memory that links may not take: a page finds room for its canonical one whatever else is to
	// be read.
	reserve = 32
)

// urls is a set of URLs by their hashes: a URL may have 2 KB. Two that share one, which no site can choose, are taken for
// the same, once in tens of millions of the largest crawls.
type urls map[uint64]struct{}

var seed = maphash.MakeSeed()

func hashed(url string) uint64 { return maphash.String(seed, url) }

func (u urls) add(url string) { u[hashed(url)] = struct{}{} }

func (u urls) has(url string) bool {
	_, ok := u[hashed(url)]
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

// remember adds a URL to a set of those that were read, whose memory counts.
func (f *frontier) remember(set urls, url string) {
	if !set.has(url) {
		set.add(url)
		f.left -= seenBytes
	}
}

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

// next takes the page that is to be read next out of a level. Its URL's bytes are given back when it has been read.
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
