package extract

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
)

// What goes to a child is the hint's three strings, then the content. What comes back is an outcome and, for text, its
// title, its media type, the number of its sections, and of each how much of the heading path before it goes on, what
// follows, and the text. Numbers are unsigned varints; a string is its length and its bytes.

const (
	// maxReasonBytes bounds the text of an error.
	maxReasonBytes = 1000
	// utf8PerByte is how many bytes of UTF-8 one of the content makes at most.
	utf8PerByte = 3
	// besideText is the largest title, the outcome, and the numbers of an answer without sections, or the largest reason.
	besideText = 2 << 10
	// besideSection is the numbers of a section.
	besideSection = 2 + 2*binary.MaxVarintLen32
)

// bounds are what may come of content.
type bounds struct{ sections, text int }

func boundsOf(content int) bounds {
	return bounds{sections: min(content, MaxSections), text: min(MaxTextBytes, TextPerByte*utf8PerByte*content+TextBeside)}
}

// answer is how many bytes an answer may have. Its headings stand in its text as well.
func (b bounds) answer() int64 { return int64(2*b.text + besideSection*b.sections + besideText) }

// outcome is the first byte of an answer.
type outcome byte

const (
	outcomeText outcome = iota
	outcomeUnsupported
	outcomeTooLarge
	outcomeBroken
	outcomeOther
)

var outcomes = map[outcome]error{outcomeTooLarge: ErrTooLarge, outcomeBroken: ErrBroken}

// told is an error that a child told of.
type told struct {
	kind error
	text string
}

func (t *told) Error() string { return t.text }

func (t *told) Unwrap() error { return t.kind }

var errAnswer = errors.New("its answer is not what it should be")

// answer is what a child does.
func answer(request []byte) []byte {
	hint, content, err := takeHint(request)
	if err != nil {
		return encodeError(err)
	}
	text, err := extract(context.Background(), content, hint)
	if err != nil {
		return encodeError(err)
	}
	return encodeText(text)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendHint(b []byte, h Hint) []byte {
	return appendString(appendString(appendString(b, h.MediaType), h.Name), h.URL)
}

func takeHint(request []byte) (Hint, []byte, error) {
	var fields [3]string
	for i := range fields {
		size, n := binary.Uvarint(request)
		if n <= 0 || size > uint64(len(request)-n) {
			return Hint{}, nil, errors.New("the request cannot be read")
		}
		fields[i], request = string(request[n:n+int(size)]), request[n+int(size):]
	}
	return Hint{MediaType: fields[0], Name: fields[1], URL: fields[2]}, request, nil
}

func encodeError(err error) []byte {
	reason := func(s string) string { return cutString(clean(s), maxReasonBytes) }
	var unsupported *Unsupported
	if errors.As(err, &unsupported) {
		return appendString([]byte{byte(outcomeUnsupported)}, reason(unsupported.MediaType))
	}
	kind := outcomeOther
	for o, sentinel := range outcomes {
		if errors.Is(err, sentinel) {
			kind = o
		}
	}
	return appendString([]byte{byte(kind)}, reason(err.Error()))
}

func encodeText(t source.Content) []byte {
	b := appendString(appendString([]byte{byte(outcomeText)}, t.Title), t.MediaType)
	b = binary.AppendUvarint(b, uint64(len(t.Sections)))
	size := 0
	for _, s := range t.Sections {
		size += len(s.Text)
	}
	b = append(make([]byte, 0, len(b)+size+8*len(t.Sections)), b...)
	var before []string
	for _, s := range t.Sections {
		same := 0
		for same < min(len(before), len(s.HeadingPath)) && before[same] == s.HeadingPath[same] {
			same++
		}
		b = binary.AppendUvarint(b, uint64(same))
		b = binary.AppendUvarint(b, uint64(len(s.HeadingPath)-same))
		for _, heading := range s.HeadingPath[same:] {
			b = appendString(b, heading)
		}
		b = appendString(b, s.Text)
		before = s.HeadingPath
	}
	return b
}

// answerReader takes an answer apart. The first error sticks.
type answerReader struct {
	rest string
	bad  bool
}

// number is at most limit.
func (r *answerReader) number(limit int) int {
	var n uint64
	for shift := 0; ; shift += 7 {
		if r.bad || r.rest == "" || shift > 56 {
			r.bad = true
			return 0
		}
		c := r.rest[0]
		r.rest = r.rest[1:]
		if n |= uint64(c&0x7f) << shift; c < 0x80 {
			break
		}
	}
	if n > uint64(limit) {
		r.bad = true
		return 0
	}
	return int(n)
}

// string is of at most so many bytes, and clean as a builder has it.
func (r *answerReader) string(most int) string {
	n := r.number(min(most, len(r.rest)))
	if r.bad || n > len(r.rest) {
		r.bad = true
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	if clean(s) != s {
		r.bad = true
		return ""
	}
	return s
}

// decodeAnswer believes nothing: the child has read hostile content. errAnswer says that the answer is none that Extract
// gives; every other error is what the child says of the content.
func decodeAnswer(said string, most bounds) (source.Content, error) {
	if said == "" {
		return source.Content{}, errAnswer
	}
	kind, r := outcome(said[0]), answerReader{rest: said[1:]}
	if kind != outcomeText {
		reason := r.string(maxReasonBytes)
		switch {
		case r.bad || r.rest != "" || kind > outcomeOther:
			return source.Content{}, errAnswer
		case kind == outcomeUnsupported:
			return source.Content{}, &Unsupported{MediaType: reason}
		}
		return source.Content{}, &told{kind: outcomes[kind], text: reason}
	}
	t := source.Content{Title: r.string(MaxTitleBytes), MediaType: r.string(maxReasonBytes)}
	n := r.number(most.sections)
	if r.bad || !mediaTypes[t.MediaType] {
		return source.Content{}, errAnswer
	}
	if n > 0 {
		t.Sections = make([]chunk.Section, 0, n)
	}
	var path []string
	left, at := most.text, int64(0)
	for range n {
		same, more := r.number(len(path)), r.number(headingLevels)
		if r.bad || same+more > headingLevels {
			return source.Content{}, errAnswer
		}
		path = path[:same:same]
		for range more {
			path = append(path, r.string(maxHeadingBytes))
		}
		text := r.string(left)
		if r.bad || text == "" {
			return source.Content{}, errAnswer
		}
		t.Sections = append(t.Sections, chunk.Section{HeadingPath: path, Text: text, Start: at})
		left, at = left-len(text), at+int64(len(text))
	}
	if r.rest != "" {
		return source.Content{}, errAnswer
	}
	return t, nil
}
