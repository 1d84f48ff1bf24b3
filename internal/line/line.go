// Package line puts text from outside on one line.
package line

import (
	"strings"
	"unicode/utf8"
)

// One returns s with each run of white space as one space, and none at its ends. Invalid UTF-8 becomes U+FFFD.
func One(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, string(utf8.RuneError))), " ")
}

// Clip is One, cut between characters to at most so many bytes, with "…" where something was cut.
func Clip(s string, most int) string {
	s = One(s)
	if len(s) <= most {
		return s
	}
	return strings.TrimRight(Cut(s, most), " ") + "…"
}

// Cut returns the beginning of s, of at most so many bytes, and cut between characters.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
