package crawl

import (
	"fmt"
	"net/url"
	"strings"

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

// LeftOut counts the pages that a link led to and that have no document, by cause. A page that is stored under another address is
// not left out.
type LeftOut struct {
	counts   [causes]int
	examples [causes]string // the path of the first
	more     bool           // maxLeftOut was reached
}

// leave counts a page that is left out, once.
func (c *crawler) leave(link string, why cause) {
	if !c.mayLeave(link) {
		return
	}
	c.left.add(link)
	left := &c.result.LeftOut
	if left.counts[why]++; left.counts[why] == 1 {
		left.examples[why] = pathOf(link)
	}
	c.opt.Logger.Debug("a page is left out", "url", secret.URL(link), "because", why.String())
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
	if c.left.has(link) {
		return false
	}
	full := len(c.left) >= maxLeftOut
	c.result.LeftOut.more = c.result.LeftOut.more || full
	return !full
}

// pathOf is an address without its host and query, and short.
func pathOf(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return secret.Short(u.EscapedPath(), 80)
}

func (c cause) String() string {
	switch c {
	case tooDeep:
		return "deeper than max_depth"
	case byRobots:
		return "forbidden by robots.txt"
	case notToBeIndexed:
		return "marked noindex"
	case notThere:
		return "not there (404 or 410)"
	default:
		return "redirected out of the site"
	}
}

// String says how many pages are left out for each cause, with one of them; it is empty where there are none.
func (l LeftOut) String() string {
	var said []string
	for why, n := range l.counts {
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("%d %v", n, cause(why))
		if example := l.examples[why]; example != "" {
			text += ", like " + example
		}
		said = append(said, text)
	}
	if len(said) == 0 {
		return ""
	}
	pages := "pages left out: "
	if l.more {
		pages = fmt.Sprintf("pages left out, the first %d of them: ", maxLeftOut)
	}
	return pages + strings.Join(said, "; ")
}
