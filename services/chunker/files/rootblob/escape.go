package rootblob

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789ABCDEF"

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
			b.WriteByte('%')
			b.WriteByte(hexDigits[path[i]>>4])
			b.WriteByte(hexDigits[path[i]&15])
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
	return path[i] < ' ' || path[i] == 0x7f ||
		path[i] == '%' && i+2 < len(path) && unhex(path[i+1]) >= 0 && unhex(path[i+2]) >= 0
}

// Unescape reverses Escape. It refuses keys that are not paths inside a folder.
func Unescape(key string) (string, error) {
	path := key
	if strings.IndexByte(key, '%') >= 0 {
		var b strings.Builder
		for i := 0; i < len(key); i++ {
			if key[i] == '%' && i+2 < len(key) && unhex(key[i+1]) >= 0 && unhex(key[i+2]) >= 0 {
				b.WriteByte(byte(unhex(key[i+1])<<4 | unhex(key[i+2])))
				i += 2
				continue
			}
			b.WriteByte(key[i])
		}
		path = b.String()
	}
	if path == "" || path == "." || strings.HasPrefix(path, "/") || strings.IndexByte(path, 0) >= 0 {
		return "", &fs.PathError{Op: "open", Path: fmt.Sprintf("%q", key), Err: fs.ErrNotExist}
	}
	return path, nil
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
