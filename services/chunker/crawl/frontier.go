package crawl

// frontier is the order in which pages are read: breadth first, and within a level in the order in which
// the pages before named them. It decides what max_pages keeps, so only settled pages may add to it.
//
// A spider trap makes endless URLs; therefore the frontier takes a bounded number of them, whatever comes.
type frontier struct {
	levels [][]entry
	seen   map[string]bool
	// room is how many URLs may still be looked at, slots how many may still be added.
	room, slots int
	full        bool
}

// entry is a page to read.
type entry struct {
	url string
	// own says that the page is to be taken for itself whatever it names as canonical.
	own bool
}

// fetchesPerPage is how many requests a crawl may make for each document that it may yield. The surplus is
// for redirects, duplicates, and pages that are gone or not to be indexed.
const fetchesPerPage = 4

func maxFetches(maxPages int) int { return fetchesPerPage*maxPages + 100 }

func newFrontier(maxDepth, maxPages int) *frontier {
	return &frontier{
		levels: make([][]entry, maxDepth+1),
		seen:   map[string]bool{},
		slots:  maxFetches(maxPages),
		room:   4 * maxFetches(maxPages),
	}
}

// mark notes a URL as seen without reading it.
func (f *frontier) mark(url string) { f.seen[url] = true }

// offer adds a URL to a level if it is new, allowed is true of it, and there is room.
func (f *frontier) offer(url string, level int, allowed func(string) bool) {
	if level >= len(f.levels) || f.seen[url] {
		return
	}
	if f.room == 0 || f.slots == 0 {
		f.full = true
		return
	}
	f.room--
	f.seen[url] = true
	if allowed(url) {
		f.slots--
		f.levels[level] = append(f.levels[level], entry{url: url})
	}
}

// again puts a URL that has been read once at the end of a level, to be taken for itself.
func (f *frontier) again(url string, level int) {
	f.levels[level] = append(f.levels[level], entry{url: url, own: true})
}
