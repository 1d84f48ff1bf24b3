package teams

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/echomind/sync/internal/line"
)

// htmlText writes the text of a message until w is full. It reads tags as a stream, so that nesting costs no memory. names are the
// texts of <at id> and <attachment id>.
func htmlText(w *textWriter, source string, names names) {
	z := html.NewTokenizer(strings.NewReader(source))
	skipping, links := 0, []string(nil)
	for !w.full {
		kind := z.Next()
		if kind == html.ErrorToken {
			return
		}
		t := z.Token()
		switch kind {
		case html.TextToken:
			if skipping == 0 {
				w.text(t.Data)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			switch {
			case t.Data == "at":
				name := names.mentions[attr(t, "id")]
				w.text("@" + name)
				// The tag holds the same name, or a part of it; without an entry only the tag has a name.
				if name != "" && kind == html.StartTagToken {
					skipping++
				}
			case t.Data == "attachment":
				if name := names.attached[attr(t, "id")]; name != "" {
					names.written[name] = struct{}{}
					w.line()
					w.text("[file: " + name + "]")
					w.line()
				}
			case t.Data == "emoji" || t.DataAtom == atom.Img:
				w.text(attr(t, "alt"))
			case t.DataAtom == atom.Style || t.DataAtom == atom.Script:
				if kind == html.StartTagToken {
					skipping++
				}
			case t.DataAtom == atom.Br:
				w.newline()
			case t.DataAtom == atom.Li:
				w.line()
				w.text("- ")
			case t.DataAtom == atom.Td || t.DataAtom == atom.Th:
				w.text(" ")
			case t.DataAtom == atom.A && kind == html.StartTagToken:
				links = append(links, attr(t, "href"))
			case t.DataAtom == atom.Pre:
				w.line()
				w.pre++
			case isBlock(t.DataAtom):
				w.line()
			}
		case html.EndTagToken:
			switch {
			case t.Data == "at", t.DataAtom == atom.Style, t.DataAtom == atom.Script:
				skipping = max(skipping-1, 0)
			case t.DataAtom == atom.A && len(links) > 0:
				href := links[len(links)-1]
				links = links[:len(links)-1]
				if strings.HasPrefix(href, "http") && !strings.HasSuffix(w.String(), href) {
					w.text(" (" + href + ")")
				}
			case t.DataAtom == atom.Pre:
				w.pre = max(w.pre-1, 0)
				w.line()
			case isBlock(t.DataAtom):
				w.line()
			}
		}
	}
}

func isBlock(a atom.Atom) bool {
	switch a {
	case atom.P, atom.Div, atom.Ul, atom.Ol, atom.Li, atom.Blockquote, atom.Table, atom.Tr, atom.H1, atom.H2, atom.H3,
		atom.H4, atom.H5, atom.H6, atom.Hr:
		return true
	}
	return false
}

func attr(t html.Token, key string) string {
	for _, a := range t.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// textWriter joins text, with white space as a browser shows it.
type textWriter struct {
	b strings.Builder
	// most is how many bytes are written; full says that there were more.
	most int
	full bool
	pre  int
	// space is wanted before the next word; end is what the text ends with.
	space bool
	end   byte
}

func (w *textWriter) String() string { return w.b.String() }

func (w *textWriter) text(s string) {
	s = strings.ReplaceAll(s, "\u00a0", " ")
	if w.pre > 0 {
		w.write(s)
		return
	}
	first := true
	for word := range strings.FieldsSeq(s) {
		if w.full {
			return
		}
		if (!first || w.space || isSpace(s[0])) && w.end != 0 && w.end != '\n' && w.end != ' ' {
			w.write(" ")
		}
		w.write(word)
		w.space, first = false, false
	}
	if s != "" && isSpace(s[len(s)-1]) {
		w.space = true
	}
}

func (w *textWriter) write(s string) {
	if s != "" && !w.full {
		if room := w.most - w.b.Len(); len(s) > room {
			s, w.full = line.Cut(s, room), true
			if s == "" {
				return
			}
		}
		w.b.WriteString(s)
		w.end = s[len(s)-1]
	}
}

// newline ends a line, also an empty one.
func (w *textWriter) newline() {
	w.space = false
	w.write("\n")
}

// line ends a line if one was begun.
func (w *textWriter) line() {
	if w.space = false; w.end != 0 && w.end != '\n' {
		w.write("\n")
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
