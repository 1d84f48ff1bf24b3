package extract

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
)

const (
	maxHeadingBytes = 300
	headingLevels   = 6
	// checkEvery is how many bytes may be written between two looks at the context.
	checkEvery = 1 << 16
	// repeatedPerByte and repeatedBeside bound what of the content stands in its text more than once.
	repeatedPerByte = 2
	repeatedBeside  = 32 << 10
)

// builder lays out blocks as sections of the extracted text. The first error sticks; what is written
// after it is dropped.
type builder struct {
	ctx      context.Context
	content  int   // bytes of the content
	repeats  int64 // bytes that may still be repeated, of paths and headers
	err      error
	title    string
	sections []chunk.Section
	buf      strings.Builder
	path     []string
	levels   []int
	written  int64 // bytes of finished sections
	checked  int64
}

func newBuilder(ctx context.Context, content int) *builder {
	return &builder{ctx: ctx, content: content, repeats: repeatedPerByte*int64(content) + repeatedBeside}
}

// mayRepeat tells whether so many bytes that stand elsewhere in the content may be written once more. What a document
// repeats without end is left out from some point on, rather than all of the document refused.
func (b *builder) mayRepeat(bytes int) bool {
	if int64(bytes) > b.repeats {
		return false
	}
	b.repeats -= int64(bytes)
	return true
}

// heading ends the section and begins the next under a heading of the given level (1 is outermost).
func (b *builder) heading(level int, text string) {
	text = cutString(line.One(clean(text)), maxHeadingBytes)
	if text == "" {
		return
	}
	b.endSection()
	level = min(max(level, 1), headingLevels)
	depth := len(b.levels)
	for depth > 0 && b.levels[depth-1] >= level {
		depth--
	}
	b.levels = append(b.levels[:depth], level)
	b.path = append(b.path[:depth:depth], text)
	if b.title == "" && level == 1 {
		b.title = text
	}
	b.block(text)
}

// block adds text, of one paragraph or more, that a blank line parts from what is before and after it.
func (b *builder) block(text string) {
	text = strings.Trim(clean(text), "\n")
	if b.err != nil || strings.TrimSpace(text) == "" {
		return
	}
	b.buf.WriteString(text)
	b.buf.WriteString("\n\n")
	b.check()
}

func (b *builder) check() {
	total := b.written + int64(b.buf.Len())
	if most := min(MaxTextBytes, TextPerByte*int64(b.content)+TextBeside); total > most {
		b.err = fmt.Errorf("%w: it makes %d bytes of text, or more, of %d bytes of content; at most %d are read", ErrTooLarge, total, b.content, most)
		return
	}
	if total-b.checked >= checkEvery {
		b.checked = total
		b.err = b.ctx.Err()
	}
}

func (b *builder) endSection() {
	if b.err != nil || b.buf.Len() == 0 {
		return
	}
	b.sections = append(b.sections, chunk.Section{HeadingPath: b.path, Text: b.buf.String(), Start: b.written})
	b.written += int64(b.buf.Len())
	b.buf = strings.Builder{}
	if len(b.sections) > MaxSections {
		b.err = fmt.Errorf("%w: more than %d sections (headings, groups of rows)", ErrTooLarge, MaxSections)
		b.sections = nil
	}
}

func (b *builder) text(mediaType string) source.Content {
	b.endSection()
	return source.Content{Title: cutString(line.One(clean(b.title)), MaxTitleBytes), MediaType: mediaType, Sections: b.sections}
}

// clean makes s valid UTF-8 with line feeds only, and without NUL bytes, other control characters, byte
// order marks and the noncharacters U+FFFE and U+FFFF.
func clean(s string) string {
	if isClean(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r' || r == '\f' || r == '\v' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			return '\n'
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == '\uFEFF' || r == '\uFFFE' || r == '\uFFFF':
			return -1
		}
		return r
	}, s)
}

// isClean errs on the side of false: it looks at bytes that begin or belong to what clean changes.
func isClean(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n' || c == '\t':
		case c < ' ' || c == 0x7f || c == 0xc2 && i+1 < len(s) && s[i+1] < 0xa0 || c == 0xef:
			return false
		case c == 0xe2 && i+2 < len(s) && s[i+1] == 0x80 && (s[i+2] == 0xa8 || s[i+2] == 0xa9):
			return false
		}
	}
	return utf8.ValidString(s)
}

// cutString cuts s to at most n bytes, at a character.
func cutString(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n])
}
