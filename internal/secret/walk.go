package secret

import "strings"

// walk goes through a text once, from its beginning to its end. It remembers what it has found further on: otherwise each
// search would read the rest again, and a hostile text of 64 KiB would take seconds.
type walk struct {
	text string
	// looked is how many bytes were looked at. Tests compare it with the text's length.
	looked             int
	blank, query, line ahead
	// lineLast is the place of the last @ of the line that ends at lineEnd.
	lineEnd, lineLast int
	value             struct{ begin, end, core int }
}

func newWalk(text string) *walk {
	return &walk{text: text, blank: ahead{of: blanks}, query: ahead{of: "?#"}, line: ahead{of: "\n"}, lineEnd: -1}
}

// ahead is the place of the next of some bytes.
type ahead struct {
	of       string
	from, at int
	known    bool
}

// next is the place of the first of some bytes after a place, or the text's end.
func (a *ahead) next(w *walk, from int) int {
	if a.known && a.from <= from && from <= a.at {
		return a.at
	}
	at := strings.IndexAny(w.text[from:], a.of)
	if at < 0 {
		at = len(w.text) - from
	}
	w.looked += at
	a.from, a.at, a.known = from, from+at, true
	return a.at
}
