package chunk

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Section is a stretch of extracted text under one heading.
type Section struct {
	// HeadingPath are the headings above the text, outermost first.
	HeadingPath []string
	// Text is the text of the section. It usually begins with its own heading, and ends with the blank
	// line before the next section.
	Text string
	// Start is the byte offset of Text in the extracted text.
	Start int64
}

// Split cuts sections into chunks of at most opts.MaxTokens estimated tokens.
//
// A section is cut at paragraphs, else at ends of sentences, else at ends of lines, else between words,
// else between characters; a coarser cut is preferred unless it leaves the chunk under 40 % full. Chunks
// that follow each other in one section share about opts.OverlapPercent of the limit, from the start of
// a sentence, else of a line or word. White space at the edges of a chunk is dropped, and so are sections
// without anything else.
//
// Adjacent sections are merged when both are small (a quarter of the limit), they fit in one chunk together, they touch (one
// starts where the other ends), and no heading is lost by it: the merged chunk has the heading path that they share, and each
// heading below that path begins the text of a section in it.
//
// The text of a chunk is the extracted text from Start to End. Each stretch in it that is invalid UTF-8 or NUL bytes is
// replaced by a space, while Start and End keep referring to the original. Options out of range are replaced by the nearest
// bound; see Options.Validate.
func Split(sections []Section, opts Options) []Chunk {
	lim := opts.limits()
	total := 0
	for _, s := range sections {
		total += len(s.Text)
	}
	chunks := make([]Chunk, 0, total/lim.max+len(sections)/4+1)
	for len(sections) > 0 {
		group, n := merge(sections, lim)
		chunks = appendSection(chunks, group, lim)
		sections = sections[n:]
	}
	return chunks
}

func appendSection(chunks []Chunk, s Section, lim limits) []Chunk {
	text := strings.TrimRight(s.Text, whitespace)
	path := cleanPath(s.HeadingPath)
	for from, done := 0, 0; done < len(text); {
		for classes[text[from]] == space || classes[text[from]] == newline {
			from++
		}
		done = max(done, from)
		cut := findCut(text, from, done, lim)
		if strings.Trim(text[done:cut], whitespace) != "" {
			chunks = appendChunk(chunks, text, from, cut, s.Start, path)
		}
		done = cut
		from = overlapStart(text, from, cut, lim)
	}
	return chunks
}

// whitespace is the white space that Split trims: ASCII only, so that it does not depend on where a sequence was cut.
const whitespace = " \t\n\r\v\f"

func appendChunk(chunks []Chunk, text string, from, to int, base int64, path []string) []Chunk {
	piece := strings.TrimRight(text[from:to], whitespace)
	clean := cleanText(piece)
	if clean == "" {
		return chunks
	}
	return append(chunks, Chunk{
		Text: clean, HeadingPath: path, Start: base + int64(from), End: base + int64(from+len(piece)),
	})
}

// cleanText never increases the weight of a text: a space weighs no more than any byte that it replaces.
func cleanText(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, " "), "\x00", " ")
	return strings.Trim(s, whitespace)
}

func cleanPath(path []string) []string {
	for i, h := range path {
		if c := cleanText(h); c != h {
			path = slices.Clone(path)
			path[i] = c
		}
	}
	return path
}
