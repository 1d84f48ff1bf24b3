// Package extract turns the bytes of a document into readable text with headings.
//
// What a document is, is told by its content; its name and declared media type only break ties. The
// offsets of the result refer to the extracted text, which is the sections' texts one after the other. It
// is valid UTF-8 without NUL bytes or other control characters than line feed and tab.
package extract

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/echomind/sync/sdk/source"
)

// Version changes whenever a document that could not be read before may be readable now, or reads
// differently. Callers keep it beside the verdicts that they remember.
const Version = "3"

// Bounds. A document beyond one of them is refused with ErrTooLarge: half a document that looks whole
// would be worse than a reason that says why it is missing.
const (
	// MaxContentBytes bounds the content given to Extract.
	MaxContentBytes = 32 << 20
	// MaxTextBytes bounds the extracted text, which repeats CSV headers and JSON paths.
	MaxTextBytes = 64 << 20
	// TextPerByte and TextBeside bound it by the content in UTF-8 as well: so many bytes for each byte, and so many more.
	// A caller that makes room for a document knows by them how much its text may take.
	TextPerByte = 4
	TextBeside  = 64 << 10
	// MaxJSONDepth bounds the nesting of JSON objects and arrays.
	MaxJSONDepth = 256
	// MaxCSVRows bounds the records of a CSV file.
	MaxCSVRows = 1_000_000
	// MaxSections bounds the sections of a text. Each is a chunk at least, and a worker stores as many of a document.
	MaxSections = 100_000
	// MaxTitleBytes is where a title is cut.
	MaxTitleBytes = 500
)

// ErrUnsupported is what every *Unsupported is.
var ErrUnsupported = errors.New("unsupported content")

// ErrTooLarge says that a bound of this package was exceeded.
var ErrTooLarge = errors.New("content too large")

// ErrBroken says that a parser broke on the content.
var ErrBroken = errors.New("content cannot be parsed")

// Unsupported says that the content is of a kind this package does not read. Its text is fit to be shown
// to people as the reason why a document is missing.
type Unsupported struct {
	// MediaType is what the content was recognised as, e.g. "application/pdf".
	MediaType string
}

func (u *Unsupported) Error() string {
	return fmt.Sprintf("%s (%s) is not supported: only HTML, Markdown, plain text, CSV and JSON are read",
		describe(u.MediaType), u.MediaType)
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (u *Unsupported) Is(target error) bool { return target == ErrUnsupported }

// Hint is what is known of a document besides its content. Every field may be empty.
type Hint struct {
	// MediaType is what the source declares, with parameters ("text/html; charset=utf-8").
	MediaType string
	// Name is the file name; only its extension is looked at.
	Name string
	// URL is where the document was found.
	URL string
}

// hashOf returns the SHA-256, in hex, of title, text and heading paths. It distinguishes a changed document from a document that
// was only touched, or whose markup alone changed.
func hashOf(t source.Content) string {
	h := sha256.New()
	var buf [binary.MaxVarintLen64]byte
	number := func(n int) { h.Write(buf[:binary.PutUvarint(buf[:], uint64(n))]) }
	write := func(s string) {
		number(len(s))
		h.Write([]byte(s))
	}
	write(t.Title)
	for _, s := range t.Sections {
		number(len(s.HeadingPath))
		for _, heading := range s.HeadingPath {
			write(heading)
		}
		write(s.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Extract reads content. Its Title is empty when the content has none. Its MediaType is one of text/html, text/markdown,
// text/plain, text/csv, application/json and application/jsonl. Each of its Sections starts where the one before it ends, and
// begins with its own heading, if it has one. Content that is empty or white space only has no sections and is not an error: an
// empty file is a document without text.
//
// It returns an *Unsupported for content it does not read, ErrTooLarge beyond the bounds of this package,
// ErrBroken where a parser panics, and ctx.Err() once ctx is done. It keeps no reference to content.
func Extract(ctx context.Context, content []byte, hint Hint) (source.Content, error) {
	return withHash(extract(ctx, content, hint))
}

func withHash(text source.Content, err error) (source.Content, error) {
	if err == nil {
		text.Hash = hashOf(text)
	}
	return text, err
}

// extract is Extract without the hash.
func extract(ctx context.Context, content []byte, hint Hint) (text source.Content, err error) {
	// One hostile document must not end the process that reads all the others.
	defer func() {
		if p := recover(); p != nil {
			text, err = source.Content{}, fmt.Errorf("%w: the parser stopped at %v", ErrBroken, p)
		}
	}()
	if err := ctx.Err(); err != nil {
		return source.Content{}, err
	}
	if err := checkSize(content); err != nil {
		return source.Content{}, err
	}
	content, err = decode(content, hint)
	if err != nil {
		return source.Content{}, err
	}
	content = bytes.TrimSpace(content)
	mediaType := typeOf(content, hint)
	out := newBuilder(ctx, len(content))
	switch mediaType {
	case mediaHTML:
		err = readHTML(content, hint, out)
	case mediaMarkdown:
		err = readMarkdown(content, out)
	case mediaCSV:
		err = readCSV(content, hint, out)
	case mediaJSON, mediaJSONLines:
		err = readJSON(content, mediaType, out)
	case mediaText:
		out.block(string(content))
	default:
		return source.Content{}, &Unsupported{MediaType: mediaType}
	}
	out.endSection()
	if err == nil {
		err = out.err
	}
	if err != nil {
		return source.Content{}, err
	}
	return out.text(mediaType), nil
}
