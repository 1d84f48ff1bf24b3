package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxMemoBytes is the longest memo of a document, as it is sent.
const MaxMemoBytes = 8192

// maxMemoDepth is how deep a memo may be nested: Postgres, and others' decoders, go one call deeper for each level.
const maxMemoDepth = 100

// CheckMemo says why a document cannot have a memo, and what to do, in words that follow "memo"; nil if it can. An empty one is
// none.
func CheckMemo(memo []byte) error {
	switch {
	case len(memo) == 0:
		return nil
	case len(memo) > MaxMemoBytes:
		return fmt.Errorf("has %d bytes: at most %d; keep less in it", len(memo), MaxMemoBytes)
	case !utf8.Valid(memo):
		return errors.New("is not UTF-8; clean its texts first")
	case !json.Valid(memo):
		return errors.New("is not valid JSON; give it what a JSON encoder has written")
	}
	switch depth, hasNUL := lookInto(memo); {
	case hasNUL:
		return errors.New(`holds a NUL character, \u0000; strip it`)
	case depth > maxMemoDepth:
		return fmt.Errorf("is nested %d levels deep: at most %d; make it flat", depth, maxMemoDepth)
	}
	return nil
}

// lookInto says how deep valid JSON is nested and whether a text of it holds an escaped NUL.
func lookInto(value []byte) (deepest int, hasNUL bool) {
	depth, inText := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			inText = !inText
		case c == '\\':
			i++
			hasNUL = hasNUL || string(value[i:min(i+5, len(value))]) == "u0000"
		case !inText && (c == '[' || c == '{'):
			depth++
			deepest = max(deepest, depth)
		case !inText && (c == ']' || c == '}'):
			depth--
		}
	}
	return deepest, hasNUL
}
