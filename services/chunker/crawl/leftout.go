package crawl

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/secret"
)

// cause is why a page that a link leads to has no document.
type cause int

// The causes, in the order in which LeftOut says them.
const (
	tooDeep cause = iota
	byRobots
	notToBeIndexed
	notThere
	offSite
	causes
)

// maxLeftOut bounds the pages that are counted as left out, and their memory. Tests lower it.
var maxLeftOut = 10_000

const (
	// leftOutNames is how many paths are named for each cause: all of them fit into the warnings of a run.
	leftOutNames = 20
	// leftOutKept is how many are kept until it is known which of their pages are stored after all.
	leftOutKept = 10 * leftOutNames
)

// LeftOut counts the pages that a link led to and that have no document, by cause. A page that is stored under another address is
// not left out.
type LeftOut struct {
	counts [causes]int
	names  [causes][]leftName
	more   bool // maxLeftOut was reached
}

// leftName is a path, and how many pages have it, which differ by their queries.
type leftName struct {
	path  string
	pages int
}

// leftPage is what is kept of a page that is left out: its name is one of its cause's, or none.
type leftPage struct {
	why  cause
	name int
}

// leave counts a page that is left out, once.
func (c *crawler) leave(link string, why cause) {
	if !c.mayLeave(link) {
		return
	}
	left := &c.result.LeftOut
	left.counts[why]++
	c.left[hashed(link)] = leftPage{why, left.name(pathOf(link), why)}
	c.opt.Logger.Debug("a page is left out", "url", secret.URL(link), "because", why.String())
}

// name counts a page of a path, where there is room for the path. It returns its place, or -1.
func (l *LeftOut) name(path string, why cause) int {
	names := l.names[why]
	at := slices.IndexFunc(names, func(n leftName) bool { return n.path == path })
	if at < 0 && len(names) < leftOutKept {
		at, l.names[why] = len(names), append(names, leftName{path: path})
	}
	if at >= 0 {
		l.names[why][at].pages++
	}
	return at
}

// forgetStored takes those out of what is left out that were stored behind that: another page led to them, or named them.
func (c *crawler) forgetStored() {
	left := &c.result.LeftOut
	for page, as := range c.left {
		if _, stored := c.docs[page]; !stored {
			continue
		}
		left.counts[as.why]--
		if as.name >= 0 {
			left.names[as.why][as.name].pages--
		}
	}
}

// leaveTooDeep counts a link of the last level, if it might be requested. robots.txt is asked for each link once, and for so many.
func (c *crawler) leaveTooDeep(link string) {
	switch {
	case !c.mayLeave(link) || c.refused.has(link):
	case len(c.refused) >= maxLeftOut:
		c.result.LeftOut.more = true
	case c.allowed(link):
		c.leave(link, tooDeep)
	default:
		c.refused.add(link)
	}
}

// mayLeave says whether a link is not counted as left out yet, and may be.
func (c *crawler) mayLeave(link string) bool {
	if _, counted := c.left[hashed(link)]; counted {
		return false
	}
	full := len(c.left) >= maxLeftOut
	c.result.LeftOut.more = c.result.LeftOut.more || full
	return !full
}

// key is a part of a path that may let in who has it, as links to reset a password do.
var key = regexp.MustCompile(`[0-9A-Za-z_-]{16,}`)

// isKey says whether a part of a path is an UUID, many letters and digits, or such as base64url makes.
func isKey(part string) bool {
	const digits, small, large = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if uuid.Validate(part) == nil {
		return true
	}
	for one := range strings.FieldsFuncSeq(part, func(r rune) bool { return r == '-' || r == '_' }) {
		if strings.ContainsAny(one, digits) && (len(one) >= 16 || len(one) >= 6 && strings.ContainsAny(one, small) && strings.ContainsAny(one, large)) {
			return true
		}
	}
	return false
}

// pathOf is the path of an address, as people read it, short, and without what may be a key.
func pathOf(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	path := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, u.Path)
	return secret.Short(key.ReplaceAllStringFunc(path, func(part string) string {
		if isKey(part) {
			return "…"
		}
		return part
	}), 80)
}

func (c cause) String() string {
	return [causes]string{
		"deeper than max_depth", "forbidden by robots.txt", "marked noindex", "not there (404 or 410)", "redirected out of the site",
	}[c]
}

// Pages are the first paths of each cause, a line each.
func (l LeftOut) Pages() []string {
	var lines []string
	for why, names := range l.names {
		names = slices.DeleteFunc(slices.Clone(names), func(n leftName) bool { return n.pages == 0 })
		for _, one := range names[:min(len(names), leftOutNames)] {
			text := fmt.Sprintf("left out, %v: %s", cause(why), one.path)
			if one.pages > 1 {
				text += fmt.Sprintf(" (%d pages)", one.pages)
			}
			lines = append(lines, text)
		}
	}
	return lines
}

// String says how many pages are left out for each cause; it is empty where there are none.
func (l LeftOut) String() string {
	var said []string
	for why, n := range l.counts {
		if n > 0 {
			said = append(said, fmt.Sprintf("%d %v", n, cause(why)))
		}
	}
	switch {
	case !l.more && len(said) == 0:
		return ""
	case !l.more:
		return "pages left out: " + strings.Join(said, "; ")
	case len(said) == 0:
		return "pages are left out, more than are counted"
	}
	return fmt.Sprintf("pages left out, the first %d of them: ", maxLeftOut) + strings.Join(said, "; ")
}
