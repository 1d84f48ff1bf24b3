package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// jsonPathBytes is how much of a path is written before its value, while paths may be repeated (builder.mayRepeat): a long
// key before a million small values would make a text of hundreds of times the content. After that the value's own key is.
const jsonPathBytes = 300

// jsonOf tells whether text is JSON (RFC 8259) or JSON lines. Only objects and arrays count: a lone number
// or string is plain text. What does not parse is not JSON, and is read as plain text.
func jsonOf(text []byte) string {
	if text[0] != '{' && text[0] != '[' {
		return ""
	}
	if depth, balanced := jsonDepth(text); balanced && (depth > MaxJSONDepth || json.Valid(text)) {
		return mediaJSON
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && (line[0] != '{' && line[0] != '[' || !json.Valid(line)) {
			return ""
		}
	}
	return mediaJSONLines
}

// jsonDepth is how deep brackets nest outside of strings, and whether as many close as open. The parser is
// not asked: it gives up on deep nesting, and could then not tell it from text.
func jsonDepth(text []byte) (deepest int, balanced bool) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest, depth == 0 && !quoted
}

// jsonStep is one open object or array.
type jsonStep struct {
	array  bool
	index  int
	key    string
	isKey  bool // a key comes next
	prefix string
}

// readJSON writes one line "path: value" for each value, with a blank line between the elements of the
// outermost object or array, or between lines of JSON lines.
func readJSON(text []byte, mediaType string, out *builder) error {
	if depth, _ := jsonDepth(text); depth > MaxJSONDepth {
		return fmt.Errorf("%w: JSON nested %d levels deep, at most %d are read", ErrTooLarge, depth, MaxJSONDepth)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	f := flattener{out: out, breakAt: 1}
	if mediaType == mediaJSONLines {
		f.breakAt = 0
	}
	for out.err == nil {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		f.token(token)
	}
	f.flush()
	return out.err
}

type flattener struct {
	out     *builder
	steps   []jsonStep
	lines   strings.Builder
	breakAt int
}

func (f *flattener) token(token json.Token) {
	if n := len(f.steps); n > 0 && f.steps[n-1].isKey {
		if key, ok := token.(string); ok {
			f.steps[n-1].key, f.steps[n-1].isKey = key, false
			return
		}
	}
	delim, ok := token.(json.Delim)
	switch {
	case !ok:
		f.value(token)
		f.next()
	case delim == '{' || delim == '[':
		f.steps = append(f.steps, jsonStep{array: delim == '[', isKey: delim == '{', prefix: f.path()})
	default:
		f.steps = f.steps[:len(f.steps)-1]
		f.next()
		if len(f.steps) <= f.breakAt {
			f.flush()
		}
	}
}

// next moves on in the object or array that is open, after a value.
func (f *flattener) next() {
	if n := len(f.steps); n > 0 {
		f.steps[n-1].index++
		f.steps[n-1].isKey = !f.steps[n-1].array
	}
}

func (f *flattener) path() string {
	if len(f.steps) == 0 {
		return ""
	}
	step := f.steps[len(f.steps)-1]
	path := step.prefix
	switch {
	case step.array:
		path += "[" + strconv.Itoa(step.index) + "]"
	case path == "":
		path = step.key
	default:
		path += "." + step.key
	}
	return cutString(path, jsonPathBytes)
}

// label is what is written before a value.
func (f *flattener) label() string {
	path := f.path()
	if len(f.steps) == 0 {
		return path
	}
	own := ""
	if step := f.steps[len(f.steps)-1]; !step.array {
		own = cutString(step.key, jsonPathBytes)
	}
	if !f.out.mayRepeat(max(len(path)-len(own), 0)) {
		return own
	}
	return path
}

func (f *flattener) value(token json.Token) {
	text := "null"
	if token != nil {
		text = fmt.Sprint(token)
	}
	if s, ok := token.(string); ok && len(f.steps) == 1 && !f.steps[0].array && f.steps[0].key == "title" && f.out.title == "" {
		f.out.title = s
	}
	if path := f.label(); path != "" {
		f.lines.WriteString(path)
		f.lines.WriteString(": ")
	}
	f.lines.WriteString(text)
	f.lines.WriteByte('\n')
	if f.lines.Len() > checkEvery {
		f.flush()
	}
}

func (f *flattener) flush() {
	if f.lines.Len() > 0 {
		f.out.block(f.lines.String())
		f.lines.Reset()
	}
}
