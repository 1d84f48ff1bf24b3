package extract

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-shiori/go-readability"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxTreeBytes bounds pages that are parsed into a tree, which takes tens of times their size.
	// Larger ones are read as a stream of tags.
	maxTreeBytes = 1 << 20
	// maxReadableElements and maxReadableDepth bound pages whose main content is looked for, since that
	// weighs the text of every element again at each of its ancestors.
	maxReadableElements = 20_000
	maxReadableDepth    = 100
	// minReadableBytes: below it there is too little text to tell content from menus.
	minReadableBytes = 500
	// minReadableShare: main content under this share of the page's own text was found wrongly.
	minReadableShare = 0.4
	// maxRoots bounds the tags <html> and <body> of pages that are parsed into a tree: the parser adds the attributes of
	// each to the first one, and looks at all that it has by then.
	maxRoots = 16
)

// readHTML writes the main content of a page. What it is, is judged by readability; where that finds too
// little, or the page is too large to ask, it is the body without nav, header, footer and aside.
func readHTML(source []byte, hint Hint, out *builder) error {
	if len(source) > maxTreeBytes || hasManyRoots(source) {
		return streamHTML(source, out)
	}
	// The parser gives up on more than 512 levels, instead of going as deep as the input likes.
	doc, err := html.Parse(bytes.NewReader(source))
	if err != nil {
		return streamHTML(source, out)
	}
	elements, depth := prune(doc)
	body := newBuilder(out.ctx, out.content)
	renderTree(doc, body, true)
	if body.err != nil {
		return body.err
	}
	if body.written+int64(body.buf.Len()) == 0 {
		// A page of nothing but header and footer is still a page.
		body = newBuilder(out.ctx, out.content)
		renderTree(doc, body, false)
	}
	title := body.title
	body.endSection()
	if elements <= maxReadableElements && depth <= maxReadableDepth && body.written >= minReadableBytes {
		if article := readable(doc, hint); article != nil {
			main := newBuilder(out.ctx, out.content)
			renderTree(article, main, false)
			main.endSection()
			if main.err == nil && float64(main.written) >= minReadableShare*float64(body.written) {
				body = main
			}
		}
	}
	*out = *body
	if title != "" {
		out.title = title
	}
	return out.err
}

// hasManyRoots counts start tags that stand where the parser would see them.
func hasManyRoots(source []byte) bool {
	roots := 0
	for z := html.NewTokenizer(bytes.NewReader(source)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return false
		case html.StartTagToken, html.SelfClosingTagToken:
			if name, _ := z.TagName(); string(name) == "body" || string(name) == "html" {
				if roots++; roots > maxRoots {
					return true
				}
			}
		}
	}
}

// prune removes what is never text, so that it is neither rendered nor counted as main content, and says
// how many elements are left and how deep they nest.
func prune(doc *html.Node) (elements, deepest int) {
	r := renderer{}
	for n, depth := doc, 0; n != nil; {
		if n.Type == html.ElementNode {
			elements++
			deepest = max(deepest, depth)
			if r.isSkipped(n) {
				next, up := after(n)
				n.Parent.RemoveChild(n)
				n, depth = next, depth-up
				continue
			}
		}
		if n.FirstChild != nil {
			n, depth = n.FirstChild, depth+1
			continue
		}
		next, up := after(n)
		n, depth = next, depth-up
	}
	return elements, deepest
}

// after is the node that follows n and all in it, and how many levels above n it is.
func after(n *html.Node) (*html.Node, int) {
	for up := 0; n != nil; n, up = n.Parent, up+1 {
		if n.NextSibling != nil {
			return n.NextSibling, up
		}
	}
	return nil, 0
}

// renderTree walks without recursion: a tree is as deep as its author likes.
func renderTree(root *html.Node, out *builder, dropChrome bool) {
	r := renderer{out: out, dropChrome: dropChrome}
	for n := root; n != nil && out.err == nil; {
		descend := true
		switch n.Type {
		case html.TextNode:
			r.text(n.Data)
		case html.ElementNode:
			descend = !r.open(n)
			if descend && n.FirstChild == nil {
				r.close(n)
			}
		}
		if descend && n.FirstChild != nil {
			n = n.FirstChild
			continue
		}
		for n != root && n.NextSibling == nil {
			n = n.Parent
			if n.Type == html.ElementNode {
				r.close(n)
			}
		}
		if n == root {
			break
		}
		n = n.NextSibling
	}
	r.finish()
}

// readable is the main content of doc, or nil. Headings are renamed, with their level kept aside, because
// readability turns h1 into h2 and drops the heading that repeats the title.
func readable(doc *html.Node, hint Hint) (article *html.Node) {
	for n := doc; n != nil; {
		if n.Type == html.ElementNode && isHeading(n.DataAtom) {
			n.Attr = append(n.Attr, html.Attribute{Key: levelAttr, Val: strconv.Itoa(levelOf(n))})
			n.Data, n.DataAtom = "h3", atom.H3
		}
		if n.FirstChild != nil {
			n = n.FirstChild
			continue
		}
		n, _ = after(n)
	}
	page, err := url.Parse(hint.URL)
	if err != nil {
		page = nil
	}
	// It is a port that trusts its input's shape: a page that breaks it is read as a whole instead.
	defer func() {
		if recover() != nil {
			article = nil
		}
	}()
	parser := readability.NewParser()
	parser.DisableJSONLD = true
	found, err := parser.ParseDocument(doc, page)
	if err != nil {
		return nil
	}
	return found.Node
}

func isHeading(a atom.Atom) bool {
	switch a {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// streamHTML reads a page of any size and depth in one pass and without a tree. It knows no implied end
// tags, so an unclosed menu hides the rest of what it stands in.
func streamHTML(source []byte, out *builder) error {
	z := html.NewTokenizer(bytes.NewReader(source))
	r := renderer{out: out, dropChrome: true}
	var skipping atom.Atom
	skipDepth := 0
	for out.err == nil {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		n := &html.Node{Type: html.ElementNode, Data: token.Data, DataAtom: token.DataAtom, Attr: token.Attr}
		switch {
		case skipDepth > 0:
			if token.DataAtom == skipping && kind == html.StartTagToken {
				skipDepth++
			} else if token.DataAtom == skipping && kind == html.EndTagToken {
				skipDepth--
			}
		case kind == html.TextToken:
			r.text(token.Data)
		case kind == html.StartTagToken || kind == html.SelfClosingTagToken:
			if r.open(n) && kind == html.StartTagToken && !isVoid(token.DataAtom) {
				skipping, skipDepth = token.DataAtom, 1
			}
		case kind == html.EndTagToken:
			r.close(n)
		}
	}
	r.finish()
	return out.err
}

func isVoid(a atom.Atom) bool {
	switch a {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta,
		atom.Source, atom.Track, atom.Wbr:
		return true
	}
	return false
}

// htmlText is the text of a fragment.
func htmlText(fragment string) string {
	if strings.IndexByte(fragment, '<') < 0 {
		return fragment
	}
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(fragment))
	skip := false
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(b.String())
		case html.TextToken:
			if !skip {
				b.Write(z.Text())
			}
		case html.StartTagToken:
			name, _ := z.TagName()
			skip = skipped[atom.Lookup(name)]
		case html.EndTagToken:
			skip = false
		}
	}
}
