package extract

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/echomind/sync/sdk/chunk"
)

// What goes to a child is the hint's three strings, then the content. What comes back is an outcome and, for text, its
// title, its media type, the number of its sections, and of each how much of the heading path before it goes on, what
// follows, and the text. Numbers are unsigned varints; a string is its length and its bytes.

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

var errAnswer = fmt.Errorf("%w: the reader's answer cannot be read", ErrBroken)

// answer is what a child does.
func answer(request []byte) []byte {
	hint, content, err := takeHint(request)
	if err != nil {
		return encodeError(err)
	}
	text, err := Extract(context.Background(), content, hint)
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
	var unsupported *Unsupported
	if errors.As(err, &unsupported) {
		return appendString([]byte{byte(outcomeUnsupported)}, unsupported.MediaType)
	}
	kind := outcomeOther
	for o, sentinel := range outcomes {
		if errors.Is(err, sentinel) {
			kind = o
		}
	}
	return appendString([]byte{byte(kind)}, err.Error())
}

func encodeText(t Text) []byte {
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

func (r *answerReader) string() string {
	n := r.number(len(r.rest))
	if r.bad || n > len(r.rest) {
		r.bad = true
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// decodeAnswer believes nothing: the child has read hostile content.
func decodeAnswer(said string) (Text, error) {
	if said == "" {
		return Text{}, errAnswer
	}
	kind, r := outcome(said[0]), answerReader{rest: said[1:]}
	if kind != outcomeText {
		reason := r.string()
		switch {
		case r.bad || kind > outcomeOther:
			return Text{}, errAnswer
		case kind == outcomeUnsupported:
			return Text{}, &Unsupported{MediaType: reason}
		}
		return Text{}, &told{kind: outcomes[kind], text: reason}
	}
	t := Text{Title: r.string(), MediaType: r.string()}
	// A section is three bytes at least.
	n := r.number(len(r.rest) / 3)
	t.Sections = make([]chunk.Section, 0, n)
	var path []string
	var at int64
	for range n {
		same, more := r.number(len(path)), r.number(headingLevels)
		if r.bad || same+more > headingLevels {
			return Text{}, errAnswer
		}
		path = path[:same:same]
		for range more {
			path = append(path, r.string())
		}
		text := r.string()
		t.Sections = append(t.Sections, chunk.Section{HeadingPath: path, Text: text, Start: at})
		at += int64(len(text))
	}
	if r.bad || r.rest != "" {
		return Text{}, errAnswer
	}
	if len(t.Sections) == 0 {
		t.Sections = nil
	}
	return t, nil
}
