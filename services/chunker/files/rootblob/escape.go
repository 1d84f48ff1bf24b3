package rootblob

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape makes a path valid UTF-8 without control characters: a byte that is not part of valid UTF-8, a control character, and
// a percent sign before two hex digits become %XX. Unescape reverses it, and different paths stay different.
func Escape(path string) string {
	if !needsEscape(path) {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		if r == utf8.RuneError && n == 1 || mustEscape(path, i) {
			fmt.Fprintf(&b, "%%%02X", path[i])
			i++
			continue
		}
		b.WriteString(path[i : i+n])
		i += n
	}
	return b.String()
}

func needsEscape(path string) bool {
	for i := range len(path) {
		if mustEscape(path, i) {
			return true
		}
	}
	return !utf8.ValidString(path)
}

func mustEscape(path string, i int) bool {
	_, escapes := coded(path, i)
	return path[i] < ' ' || path[i] == 0x7f || escapes
}

// coded is the byte that is written as %XX at i.
func coded(path string, i int) (c byte, is bool) {
	if path[i] != '%' || i+2 >= len(path) {
		return 0, false
	}
	n, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
	return byte(n), err == nil
}

// Unescape reverses Escape. It refuses keys that are not paths inside a folder.
func Unescape(key string) (string, error) {
	path := key
	if strings.IndexByte(key, '%') >= 0 {
		var b strings.Builder
		for i := 0; i < len(key); i++ {
			c, is := coded(key, i)
			if is {
				i += 2
			} else {
				c = key[i]
			}
			b.WriteByte(c)
		}
		path = b.String()
	}
	if path == "" || path == "." || strings.HasPrefix(path, "/") || strings.IndexByte(path, 0) >= 0 {
		return "", &fs.PathError{Op: "open", Path: fmt.Sprintf("%q", key), Err: fs.ErrNotExist}
	}
	return path, nil
}
