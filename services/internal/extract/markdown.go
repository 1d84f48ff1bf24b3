package extract

import (
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// Bounds of what the parser is given: some constructs cost it time or memory in the square of their length,
// and it goes as deep as its input. Beyond them Markdown is read as plain text, which is nearly as good.
const (
	maxMarkdownBytes = 1 << 20
	// maxMarkdownNesting bounds containers opened on one line.
	maxMarkdownNesting = 100
	// maxMarkdownCost bounds the sum, over paragraphs, of their bytes times their marks that may pair with
	// others: what it costs to look for the end of each link to the end of its paragraph.
	maxMarkdownCost = 150_000_000
	// maxMarkdownCells bounds tables, whose short rows are filled up to the width of the header.
	maxMarkdownCells = 300_000
)

// markdown parses CommonMark with GitHub's tables, strikethrough, task lists and bare links.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList))

// readMarkdown writes headings as headings and everything else without its marks. The title is that of the
// front matter, else the first heading of level 1.
func readMarkdown(source []byte, out *builder) error {
	title, source, _ := frontMatter(source)
	out.title = title
	if !isTameMarkdown(source) {
		out.block(string(source))
		return out.err
	}
	w := markdownWriter{source: source, out: out}
	w.blocks(markdown.Parser().Parse(text.NewReader(source)))
	return out.err
}

type markdownWriter struct {
	source []byte
	out    *builder
}

// blocks writes the blocks in n.
func (w *markdownWriter) blocks(n ast.Node) {
	for c := n.FirstChild(); c != nil && w.out.err == nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Heading:
			w.out.heading(c.Level, w.inline(c))
		case *ast.List:
			w.out.block(w.list(c, ""))
		case *ast.Blockquote:
			w.blocks(c)
		default:
			w.out.block(w.leaf(c))
		}
	}
}

// leaf is the text of a block without headings.
func (w *markdownWriter) leaf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Paragraph, *ast.TextBlock, *ast.Heading:
		return w.inline(n)
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		return strings.TrimRight(w.lines(n), "\n")
	case *ast.HTMLBlock:
		raw := w.lines(n)
		if n.HasClosure() {
			raw += string(n.ClosureLine.Value(w.source))
		}
		return htmlText(raw)
	case *east.Table:
		return w.table(n)
	case *ast.List:
		return w.list(n, "")
	case *ast.ThematicBreak:
		return ""
	}
	var parts []string
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if part := w.leaf(c); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "\n")
}

func (w *markdownWriter) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(w.source))
	}
	return b.String()
}

func (w *markdownWriter) list(n *ast.List, indent string) string {
	var b strings.Builder
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "- "
		if n.IsOrdered() {
			mark = strconv.Itoa(number) + ". "
			number++
		}
		for c := item.FirstChild(); c != nil; c = c.NextSibling() {
			if sub, ok := c.(*ast.List); ok {
				if mark == "" {
					b.WriteString(w.list(sub, indent+"  "))
				} else {
					b.WriteString(w.list(sub, indent))
				}
				continue
			}
			content := w.leaf(c)
			if content == "" {
				continue
			}
			b.WriteString(indent)
			if mark == "" {
				b.WriteString("  ")
			}
			b.WriteString(mark)
			b.WriteString(strings.ReplaceAll(content, "\n", "\n"+indent+"  "))
			b.WriteByte('\n')
			mark = ""
		}
	}
	return b.String()
}

func (w *markdownWriter) table(n *east.Table) string {
	var b strings.Builder
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			if cell != row.FirstChild() {
				b.WriteString(" | ")
			}
			b.WriteString(w.inline(cell))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *markdownWriter) inline(n ast.Node) string {
	var b strings.Builder
	w.writeInline(&b, n)
	return b.String()
}

func (w *markdownWriter) writeInline(b *strings.Builder, n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(unescape(c.Value(w.source), c.IsRaw()))
			switch {
			case c.HardLineBreak():
				b.WriteByte('\n')
			case c.SoftLineBreak():
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(c.Value)
		case *ast.AutoLink:
			b.Write(c.Label(w.source))
		case *ast.RawHTML:
			if isLineBreak(c, w.source) {
				b.WriteByte('\n')
			}
		case *east.TaskCheckBox:
			if c.IsChecked {
				b.WriteString("[x] ")
			} else {
				b.WriteString("[ ] ")
			}
		default:
			w.writeInline(b, c)
		}
	}
}

func isLineBreak(n *ast.RawHTML, source []byte) bool {
	return n.Segments.Len() > 0 && hasPrefixFold(n.Segments.Value(source), "<br")
}
