package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxMemoBytes is the longest memo of a document, as it is sent.
const MaxMemoBytes = 8192

// CheckMemo says why a document cannot have a memo, and what to do, in words that follow "the memo"; nil if it can. An empty
// one is none.
func CheckMemo(memo []byte) error {
	switch {
	case len(memo) == 0:
		return nil
	case len(memo) > MaxMemoBytes:
		return fmt.Errorf("has %d bytes, more than %d: keep less in it", len(memo), MaxMemoBytes)
	case !utf8.Valid(memo):
		return errors.New("is not UTF-8: clean its texts first")
	case !json.Valid(memo):
		return errors.New("is not valid JSON: give it what a JSON encoder has written")
	case holdsNUL(memo):
		return errors.New(`holds a NUL character (\u0000): strip it`)
	}
	return nil
}

// holdsNUL looks for an escaped NUL in valid JSON, whose backslashes are all in texts.
func holdsNUL(memo []byte) bool {
	for i := 0; i < len(memo); i++ {
		if memo[i] != '\\' {
			continue
		}
		i++
		if memo[i] == 'u' && string(memo[i+1:i+5]) == "0000" {
			return true
		}
	}
	return false
}
