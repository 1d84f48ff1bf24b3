package extract

import (
	"bytes"
	"html"

	"github.com/yuin/goldmark/util"
)

// unescape resolves backslash escapes and character references (CommonMark 2.4, 2.5), which the parser
// leaves to its renderer.
func unescape(value []byte, raw bool) []byte {
	if raw {
		return value
	}
	if bytes.IndexByte(value, '\\') >= 0 {
		value = util.UnescapePunctuations(value)
	}
	if bytes.IndexByte(value, '&') >= 0 {
		value = []byte(html.UnescapeString(string(value)))
	}
	return value
}
