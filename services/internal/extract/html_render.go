package extract

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/echomind/sync/internal/line"
)

// levelAttr keeps a heading's level where its element is renamed.
const levelAttr = "data-heading-level"

// skipped are elements whose content is never text of the document.
var skipped = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true, atom.Svg: true,
	atom.Iframe: true, atom.Object: true, atom.Canvas: true, atom.Button: true, atom.Select: true, atom.Input: true,
	atom.Textarea: true, atom.Video: true, atom.Audio: true, atom.Datalist: true, atom.Noframes: true,
}

// chrome are the parts around the main content: menus, banners, sidebars.
var chrome = map[atom.Atom]bool{atom.Nav: true, atom.Header: true, atom.Footer: true, atom.Aside: true}

var chromeRoles = map[string]bool{
	"navigation": true, "banner": true, "contentinfo": true, "complementary": true, "search": true, "menu": true, "menubar": true,
}

var blocks = map[atom.Atom]int{
	atom.P: 2, atom.Div: 1, atom.Section: 2, atom.Article: 2, atom.Main: 2, atom.Ul: 1, atom.Ol: 1, atom.Dl: 1,
	atom.Dt: 1, atom.Dd: 1, atom.Table: 2, atom.Blockquote: 2, atom.Pre: 2, atom.Figure: 2, atom.Figcaption: 1,
	atom.Hr: 2, atom.Address: 1, atom.Details: 2, atom.Summary: 1, atom.Form: 1, atom.Fieldset: 1, atom.Header: 2,
	atom.Footer: 2, atom.Nav: 2, atom.Aside: 2, atom.Tr: 1, atom.Caption: 1, atom.Option: 1, atom.Center: 1, atom.Body: 2,
}

// renderer writes HTML, seen as a stream of opened and closed elements and text, as readable text. It
// serves a parsed tree and a stream of tokens alike, and keeps no stack.
type renderer struct {
	out *builder
	// dropChrome leaves out menus, banners and sidebars.
	dropChrome bool

	line     strings.Builder // the block that is being written
	pending  int             // 1: a line feed, 2: a blank line comes before the next text
	space    bool            // white space comes before the next text
	pre      int
	heading  int // level of the heading that is open, or 0
	title    bool
	titles   strings.Builder
	main     int // open main and article elements
	cell     bool
	firstCol bool
	begun    bool  // nothing stands after the bullet or column mark yet
	lists    []int // -1 for bullets, else the last number
}

// open is told of a start tag. It answers whether to leave out the element with all in it.
func (r *renderer) open(n *html.Node) (skip bool) {
	if r.isSkipped(n) {
		return true
	}
	switch n.DataAtom {
	case atom.Title:
		r.title = r.titles.Len() == 0
	case atom.Br:
		r.breakLine(1)
	case atom.Pre:
		r.breakLine(2)
		r.pre++
	case atom.Main, atom.Article:
		r.main++
		r.breakLine(2)
	case atom.Ul:
		r.breakLine(r.listBreak())
		r.lists = append(r.lists, -1)
	case atom.Ol:
		r.breakLine(r.listBreak())
		r.lists = append(r.lists, 0)
	case atom.Li:
		r.breakLine(1)
		r.write(r.bullet(), true)
		r.begun = true
	case atom.Tr:
		r.breakLine(1)
		r.cell, r.firstCol = false, true
	case atom.Td, atom.Th:
		if !r.firstCol {
			r.write(" | ", true)
			r.begun = true
		}
		r.cell, r.firstCol, r.space = true, false, false
	case atom.Img:
		if alt := attr(n, "alt"); alt != "" {
			r.space = true
			r.text(alt)
			r.space = true
		}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		if r.heading == 0 && !r.cell {
			r.flush()
			r.heading = levelOf(n)
		}
	default:
		r.breakLine(blocks[n.DataAtom])
	}
	return false
}

// close is told of an end tag.
func (r *renderer) close(n *html.Node) {
	switch n.DataAtom {
	case atom.Title:
		r.title = false
	case atom.Pre:
		r.pre = max(r.pre-1, 0)
		r.breakLine(2)
	case atom.Main, atom.Article:
		r.main = max(r.main-1, 0)
		r.breakLine(2)
	case atom.Ul, atom.Ol:
		if len(r.lists) > 0 {
			r.lists = r.lists[:len(r.lists)-1]
		}
		r.breakLine(r.listBreak())
	case atom.Td, atom.Th:
		r.cell = false
	case atom.Table:
		r.cell = false
		r.breakLine(2)
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		if r.heading > 0 {
			text := r.line.String()
			r.line.Reset()
			r.pending, r.space = 0, false
			r.out.heading(r.heading, text)
			r.heading = 0
		}
	default:
		r.breakLine(blocks[n.DataAtom])
	}
}

func (r *renderer) text(s string) {
	if r.title {
		if r.titles.Len() < MaxTitleBytes {
			r.titles.WriteString(cutString(s, MaxTitleBytes))
		}
		return
	}
	if r.pre > 0 && r.heading == 0 && !r.cell {
		r.write(s, true)
		return
	}
	if s == "" {
		return
	}
	if isSpace(s[0]) {
		r.space = true
	}
	wrote := false
	for field := range strings.FieldsSeq(s) {
		if wrote {
			r.space = true
		}
		r.write(field, false)
		wrote = true
	}
	if isSpace(s[len(s)-1]) {
		r.space = true
	}
}

// write adds s after the break or space that is due.
func (r *renderer) write(s string, verbatim bool) {
	if s == "" {
		return
	}
	switch {
	case r.pending == 2 && r.heading == 0:
		r.flush()
	case r.pending > 0 && r.line.Len() > 0:
		r.line.WriteString([...]string{"", "\n", "\n\n"}[r.pending])
	case r.space && r.line.Len() > 0 && !verbatim && !r.begun:
		r.line.WriteByte(' ')
	}
	r.pending, r.space, r.begun = 0, false, false
	r.line.WriteString(s)
}

func (r *renderer) breakLine(n int) {
	if n == 0 {
		return
	}
	// Inside a cell or heading a block is no more than a space: rows and headings stay one line.
	if r.cell || r.heading > 0 {
		r.space = true
		return
	}
	if r.begun {
		return
	}
	if len(r.lists) > 0 {
		n = 1
	}
	r.pending = max(r.pending, n)
}

func (r *renderer) flush() {
	r.out.block(r.line.String())
	r.line.Reset()
	r.pending, r.space = 0, false
}

// finish writes what is left, and the title.
func (r *renderer) finish() {
	r.heading = 0
	r.flush()
	if title := line.One(r.titles.String()); title != "" {
		r.out.title = title
	}
}

func (r *renderer) listBreak() int {
	if len(r.lists) > 0 {
		return 1
	}
	return 2
}

// maxListIndent keeps deep nesting from turning into white space.
const maxListIndent = 8

func (r *renderer) bullet() string {
	n := len(r.lists)
	if n == 0 {
		return "- "
	}
	indent := strings.Repeat("  ", min(n-1, maxListIndent))
	if r.lists[n-1] < 0 {
		return indent + "- "
	}
	r.lists[n-1]++
	return indent + strconv.Itoa(r.lists[n-1]) + ". "
}

func (r *renderer) isSkipped(n *html.Node) bool {
	if skipped[n.DataAtom] || isHidden(n) {
		return true
	}
	if !r.dropChrome {
		return false
	}
	if n.DataAtom == atom.Header && r.main > 0 {
		return false
	}
	return chrome[n.DataAtom] || chromeRoles[attr(n, "role")]
}

// isHidden tells whether the page hides the element from everybody.
func isHidden(n *html.Node) bool {
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return a.Val != "until-found"
		case "aria-hidden":
			if a.Val == "true" {
				return true
			}
		case "style":
			style := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

func levelOf(n *html.Node) int {
	if level, err := strconv.Atoi(attr(n, levelAttr)); err == nil {
		return level
	}
	return int(n.Data[1] - '0')
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
