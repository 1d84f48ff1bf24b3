package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/chunk"
)

// Limits of a document, in bytes unless said otherwise.
const (
	MaxSourceIDBytes = 2048
	MaxTokenBytes    = 2048
	MaxTitleBytes    = 1024
	MaxURLBytes      = 4096
	MaxLinkBytes     = 128 << 10
	MaxMemoBytes     = wire.MaxMemoBytes
	MaxChunkBytes    = 64 << 10
	MaxChunks        = topology.MaxDocumentChunks // pieces
	maxHeadingBytes  = 4096
	maxReasonBytes   = 1000
)

// slack is kept free in every message for field tags, numbers and the session.
const slack = 1024

// ErrDocument says that the identity of a document, its Links or its Memo break a limit or cannot be stored.
var ErrDocument = errors.New("bad document")

// Oversize says why a text cannot be stored, in words for people; nil if it can.
func Oversize(chunks []chunk.Chunk) error {
	if len(chunks) > MaxChunks {
		return fmt.Errorf("the text is too large: it makes %d chunks, at most %d are stored", len(chunks), MaxChunks)
	}
	for _, c := range chunks {
		if len(c.Text) > MaxChunkBytes {
			return fmt.Errorf("the text is too large: a chunk of it has %d bytes, at most %d are stored", len(c.Text), MaxChunkBytes)
		}
	}
	return nil
}

// parts turns a document into the parts that are published, each small enough for a message. Texts for people are cut to size and
// cleaned; a field that identifies must be right. A text that cannot be stored fails this document alone, and not the whole sync.
func parts(d Document) ([]*internalpb.DocumentPart, error) {
	memo, err := compactMemo(d)
	if err := errors.Join(checkIdentity(d), err); err != nil {
		return nil, err
	}
	if why := Oversize(d.Chunks); why != nil && d.Err == "" {
		d.Err = why.Error()
	}
	title, url, reason := clip(d.Title, MaxTitleBytes), clip(d.URL, MaxURLBytes), clip(secret.Text(d.Err), maxReasonBytes)
	newPart := func(firstChunk int) *internalpb.DocumentPart {
		return &internalpb.DocumentPart{
			SourceId: d.SourceID, Title: title, Url: url, MediaType: clip(d.MediaType, 255), ContentHash: d.ContentHash, VersionToken: d.VersionToken,
			Links: d.Links, Memo: memo, Error: reason, Parts: 1, FirstChunk: int32(firstChunk), ChunkCount: int32(len(d.Chunks)),
		}
	}
	part := newPart(0)
	all := []*internalpb.DocumentPart{part}
	if d.Err != "" {
		part.Error, part.VersionToken, part.ChunkCount = cmp.Or(reason, "no reason was given"), "", 0
		return all, nil
	}
	room := topology.MaxMessageBytes - slack - proto.Size(part)
	left := room
	for i, c := range d.Chunks {
		piece := wireChunk(c)
		size := proto.Size(piece) + 8
		if size > left || len(part.Chunks) == topology.MaxMessageChunks {
			if len(all) == topology.MaxDocumentParts {
				return nil, fmt.Errorf("%w: the Chunks of %q need more than %d messages", ErrDocument, d.SourceID, len(all))
			}
			part, left = newPart(i), room
			all = append(all, part)
		}
		part.Chunks = append(part.Chunks, piece)
		left -= size
	}
	for _, p := range all {
		p.Parts = int32(len(all))
	}
	return all, nil
}

func checkIdentity(d Document) error {
	var problems []error
	check := func(field, value string, most int, required bool) {
		switch {
		case required && value == "":
			problems = append(problems, fmt.Errorf("%w: %s is empty", ErrDocument, field))
		case len(value) > most:
			problems = append(problems, fmt.Errorf("%w: %s has %d bytes, more than %d", ErrDocument, field, len(value), most))
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			problems = append(problems, fmt.Errorf("%w: %s %q holds a NUL byte or is not UTF-8", ErrDocument, field, value))
		}
	}
	check("SourceID", d.SourceID, MaxSourceIDBytes, true)
	check("VersionToken", d.VersionToken, MaxTokenBytes, false)
	check("ContentHash", d.ContentHash, 255, false)
	links := 0
	for _, l := range d.Links {
		links += len(l) + 4
		check("Links", l, MaxURLBytes, true)
	}
	if links > MaxLinkBytes {
		problems = append(problems, fmt.Errorf("%w: Links have %d bytes, more than %d", ErrDocument, links, MaxLinkBytes))
	}
	return errors.Join(problems...)
}

// Validate returns every problem of what identifies the document, its links and its memo, joined, as an ErrDocument; or nil.
func (d Document) Validate() error {
	_, err := compactMemo(d)
	return errors.Join(checkIdentity(d), err)
}

// compactMemo is a document's memo as it is sent; nil for none.
func compactMemo(d Document) ([]byte, error) {
	if len(d.Memo) == 0 {
		return nil, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Memo); err != nil {
		return nil, fmt.Errorf("%w: Memo is not valid JSON: %w; give it what json.Marshal returned", ErrDocument, err)
	}
	if err := wire.CheckMemo(compact.Bytes()); err != nil {
		return nil, fmt.Errorf("%w: Memo %w", ErrDocument, err)
	}
	return compact.Bytes(), nil
}

func wireChunk(c chunk.Chunk) *internalpb.Chunk {
	path, room := make([]string, 0, len(c.HeadingPath)), maxHeadingBytes
	for _, heading := range c.HeadingPath {
		heading = clip(heading, room)
		if room -= len(heading); heading != "" {
			path = append(path, heading)
		}
	}
	return &internalpb.Chunk{Text: clip(c.Text, MaxChunkBytes), HeadingPath: path, Start: c.Start, End: c.End}
}

// clip makes text storable: valid UTF-8 without NUL, of at most the given bytes. What is not UTF-8 becomes U+FFFD, or the shorter
// "?" where that makes the text longer than it may be: a text that fits is never cut.
func clip(text string, most int) string {
	if strings.ContainsRune(text, 0) {
		text = strings.ReplaceAll(text, "\x00", "")
	}
	if !utf8.ValidString(text) {
		broken := text
		if text = strings.ToValidUTF8(broken, "\uFFFD"); len(text) > most && len(broken) <= most {
			text = strings.ToValidUTF8(broken, "?")
		}
	}
	if len(text) > most {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most]
	}
	return text
}
