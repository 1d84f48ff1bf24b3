// Package answer reads what providers answer, for all remote sources. It decodes JSON as a stream, with bounds: 12 KB on the wire may
// be 4 million empty objects, which take gigabytes once they are decoded.
//
//	answer.go   JSON
//	content.go  content, as much as there is room for
//	last.go     what is listed more than once
//	refusal.go  answers that refuse
//	request.go  requests, and answers that break off
package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge says that an answer breaks a bound. Asking again does not help.
var ErrTooLarge = errors.New("the answer is larger than is read")

// Limits bound an answer.
type Limits struct {
	// Bytes bounds the whole answer, String one text in it.
	Bytes, String int64
	// Values bounds the objects, arrays and elements of both.
	Values int64
	// Element bounds a value that is decoded at once in a streamed answer: the decoder holds all of it. 0: no bound of its own.
	Element int64
}

// maxDepth is how deep objects and arrays may nest.
const maxDepth = 64

// Streamed is a value that is decoded element by element.
type Streamed interface {
	// Stream decodes the next value.
	Stream(dec *Decoder) error
}

// Decoder decodes a Streamed.
type Decoder struct {
	*json.Decoder
	from *reader
}

// Decode decodes the next value, which has at most Limits.Element bytes.
func (d *Decoder) Decode(into any) error {
	if most := d.from.limits.Element; most > 0 {
		d.from.until = d.InputOffset() + most
		defer func() { d.from.until = 0 }()
	}
	return d.Decoder.Decode(into)
}

// Decode decodes a whole answer. It returns ErrTooLarge, or ErrIncomplete.
func Decode(body io.Reader, limits Limits, into any) error {
	from := &reader{from: body, limits: limits}
	dec := json.NewDecoder(from)
	var err error
	if streamed, is := into.(Streamed); is {
		err = streamed.Stream(&Decoder{dec, from})
	} else {
		err = dec.Decode(into)
	}
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.Join(more, errors.New("something follows its end"))
		}
	}
	switch {
	case from.broken != nil:
		return from.broken
	case err == nil || errors.Is(err, ErrTooLarge):
		return err
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}

// Object calls field for each field of the next object; field reads the value. A null has no fields.
func Object(dec *Decoder, field func(name string) error) error {
	return each(dec, '{', func() error {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		text, _ := name.(string)
		return field(text)
	})
}

// Array calls element for each element of the next array; element reads it.
func Array(dec *Decoder, element func() error) error { return each(dec, '[', element) }

// maxElements bounds what a page lists: Google Drive sends 1,000 at most; Microsoft Graph 200 items, unless it is asked for up to 1,000, and 50 messages.
const maxElements = 5000

// Elements reads the elements of the next array, one by one. It lists what read has taken of an element before it returns its error.
func Elements[T any](dec *Decoder, into *[]T, read func(*T) error) error {
	return Array(dec, func() error {
		if len(*into) == maxElements {
			return fmt.Errorf("%w: it lists more than %d", ErrTooLarge, maxElements)
		}
		var one T
		err := read(&one)
		*into = append(*into, one)
		return err
	})
}

func each(dec *Decoder, begin json.Delim, each func() error) error {
	token, err := dec.Token()
	if err != nil || token == nil {
		return err
	}
	if token != begin {
		return fmt.Errorf("%v stands where %v is expected", token, begin)
	}
	for dec.More() {
		if err := each(); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// Skip skips the next value.
func Skip(dec *Decoder) error {
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// reader counts bytes, values and depth before the decoder sees them.
type reader struct {
	from   io.Reader
	limits Limits
	broken error

	bytes, values, text int64
	// until is where a value ends at the latest; 0 = anywhere. The decoder reads on only while the value is incomplete.
	until           int64
	depth           int
	inText, escaped bool
}

func (r *reader) Read(p []byte) (int, error) {
	if r.until > 0 && r.bytes >= r.until && r.broken == nil {
		r.broken = fmt.Errorf("%w: one value in it has more than %d bytes", ErrTooLarge, r.limits.Element)
	}
	if r.broken != nil {
		return 0, r.broken
	}
	n, err := r.from.Read(p)
	r.bytes += int64(n)
	for _, c := range p[:n] {
		r.count(c)
	}
	switch {
	case r.bytes > r.limits.Bytes:
		r.broken = fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, r.limits.Bytes)
	case r.values > r.limits.Values:
		r.broken = fmt.Errorf("%w: it has more than %d values", ErrTooLarge, r.limits.Values)
	case r.depth > maxDepth:
		r.broken = fmt.Errorf("%w: it nests more than %d levels deep", ErrTooLarge, maxDepth)
	case r.text > r.limits.String:
		r.broken = fmt.Errorf("%w: a text in it has more than %d bytes", ErrTooLarge, r.limits.String)
	}
	if r.broken != nil {
		return 0, r.broken
	}
	return n, err
}

func (r *reader) count(c byte) {
	if r.inText {
		switch {
		case r.escaped:
			r.escaped = false
		case c == '\\':
			r.escaped = true
		case c == '"':
			r.inText = false
		}
		if r.text <= r.limits.String {
			r.text++
		}
		return
	}
	switch c {
	case '"':
		r.inText = true
		if r.text <= r.limits.String {
			r.text = 0
		}
	case '{', '[':
		r.values++
		if r.depth <= maxDepth {
			r.depth++
		}
	case '}', ']':
		if r.depth <= maxDepth {
			r.depth--
		}
	case ',':
		r.values++
	}
}
