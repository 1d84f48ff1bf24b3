package files

import "strings"

// maxAlternatives bounds the combinations of one pattern's braces, and maxAllAlternatives those of all patterns of a list. The
// library tries every combination: 60 times {,} are 2^60.
const (
	maxAlternatives    = 100
	maxAllAlternatives = 2000
)

// expand returns patterns without braces that together match the same as pattern. It returns false beyond maxAlternatives.
func expand(pattern string) ([]string, bool) {
	var out []string
	braced := []string{pattern} // patterns that may have braces
	for len(braced) > 0 {
		p := braced[len(braced)-1]
		braced = braced[:len(braced)-1]
		open := next(p, 0, "{")
		end := -1
		if open >= 0 {
			end = closing(p, open+1)
		}
		if end < 0 {
			out = append(out, p)
			continue
		}
		for from := open + 1; from <= end; {
			to := comma(p, from, end)
			if len(out)+len(braced) == maxAlternatives {
				return nil, false
			}
			braced = append(braced, p[:open]+p[from:to]+p[end+1:])
			from = to + 1
		}
	}
	return out, true
}

// class is the end of the character class that begins at i.
func class(p string, i int) int {
	for i++; i < len(p) && p[i] != ']'; i++ {
		if p[i] == '\\' {
			i++
		}
	}
	return i
}

// closing is the end of the braces whose content begins at i, or -1.
func closing(p string, i int) int {
	for depth := 1; ; i++ {
		i = next(p, i, "{}")
		switch {
		case i < 0:
			return -1
		case p[i] == '{':
			depth++
		default:
			if depth--; depth == 0 {
				return i
			}
		}
	}
}

// comma is the end of the alternative that begins at i, in braces that end at end.
func comma(p string, i, end int) int {
	for depth := 0; ; i++ {
		i = next(p[:end], i, "{},")
		switch {
		case i < 0:
			return end
		case p[i] == '{':
			depth++
		case p[i] == '}':
			depth--
		case depth == 0:
			return i
		}
	}
}

// next is the first place of one of chars from i on, not within character classes and not escaped, or -1.
func next(p string, i int, chars string) int {
	for ; i < len(p); i++ {
		switch {
		case p[i] == '\\':
			i++
		case p[i] == '[':
			i = class(p, i)
		case strings.IndexByte(chars, p[i]) >= 0:
			return i
		}
	}
	return -1
}
