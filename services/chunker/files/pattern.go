package files

import (
	"context"
	"strings"
	"unicode/utf8"
)

// pattern is a glob without braces. The library's Match is its specification; this one counts its steps.
type pattern struct {
	glob string
	// end and part are plain text: a name that the glob matches ends with end and contains part. Most names are decided by
	// them.
	end, part string
}

// maxPartBytes is how many bytes processors search for in one step.
const maxPartBytes = 16

func compile(glob string) pattern {
	p := pattern{glob: glob}
	// An escaped character means itself, and U+FFFD any invalid byte.
	if strings.ContainsAny(glob, "\\\uFFFD") {
		return p
	}
	from := 0
	for i := 0; i <= len(glob); i++ {
		if i < len(glob) && strings.IndexByte("*?[/", glob[i]) < 0 {
			continue
		}
		if i-from > len(p.part) {
			p.part = glob[from:min(i, from+maxPartBytes)]
		}
		if i < len(glob) && glob[i] == '[' {
			i = class(glob, i)
		}
		if i < len(glob) {
			from = i + 1
		}
	}
	p.end = glob[from:]
	return p
}

// matches counts its steps with pace. Its error is ctx's.
func (p pattern) matches(ctx context.Context, pace *pace, name string) (bool, error) {
	steps := 1
	possible := strings.HasSuffix(name, p.end)
	if possible && p.end == "" && p.part != "" {
		steps += len(name) / maxPartBytes
		possible = strings.Contains(name, p.part)
	}
	if err := pace.take(ctx, steps); err != nil || !possible {
		return false, err
	}
	return p.walk(ctx, pace, name)
}

// walk compares glob and name. Where they differ, it goes back to the last star and lets it match one character more; where
// that is impossible, to the last two stars, which match one folder more. So a step is repeated once for each character and
// folder.
func (p pattern) walk(ctx context.Context, pace *pace, name string) (bool, error) {
	g, n := 0, 0
	star, stars := back{glob: -1}, back{glob: -1}
	for n < len(name) {
		if err := pace.take(ctx, 1); err != nil {
			return false, err
		}
		if g < len(p.glob) && p.glob[g] == '*' {
			switch next, folders := p.afterStars(g); {
			case folders && p.glob[next-1] == '*': // the glob ends here
				return true, nil
			case folders:
				g, stars, star.glob = next, back{next, n}, -1
			default:
				g, star = next, back{next, n}
			}
			continue
		}
		next, length := p.character(g, name[n:])
		pace.left -= (next - g) / 4 // a class may be long
		if length > 0 {
			g, n = next, n+length
			continue
		}
		if star.glob >= 0 && name[star.name] != '/' {
			_, length := utf8.DecodeRuneInString(name[star.name:])
			star.name += length
			g, n = star.glob, star.name
			continue
		}
		slash := -1
		if stars.glob >= 0 {
			slash = strings.IndexByte(name[stars.name:], '/')
		}
		if slash < 0 {
			return false, nil
		}
		stars.name += slash + 1
		g, n = stars.glob, stars.name
	}
	switch p.glob[g:] {
	case "", "*", "**", "/**", "**/", "/**/":
		return true, nil
	}
	return false, nil
}

// back is the place of a star.
type back struct{ glob, name int }

// afterStars is the place after the star, or two stars, at g. Two stars match folders where they are alone between slashes.
func (p pattern) afterStars(g int) (next int, folders bool) {
	if !strings.HasPrefix(p.glob[g:], "**") {
		return g + 1, false
	}
	next = g + 2
	if g > 0 && p.glob[g-1] != '/' {
		return next, false
	}
	if next == len(p.glob) {
		return next, true
	}
	if p.glob[next] == '/' {
		return next + 1, true
	}
	return next, false
}

// character matches one character of name: it returns how far the glob was read, and the character's length; 0 if it does not
// match.
func (p pattern) character(g int, name string) (next, length int) {
	if g == len(p.glob) {
		return g, 0
	}
	r, length := utf8.DecodeRuneInString(name)
	switch p.glob[g] {
	case '?':
		if r == '/' {
			return g, 0
		}
		return g + 1, length
	case '[':
		end := class(p.glob, g)
		if end >= len(p.glob) || !inClass(p.glob[g+1:end], r) {
			return end, 0
		}
		return end + 1, length
	}
	want, rest := first(p.glob[g:])
	if want != r {
		return g, 0
	}
	return len(p.glob) - len(rest), length
}

// inClass tells whether a class, without its brackets, contains r.
func inClass(class string, r rune) bool {
	negated := strings.HasPrefix(class, "!") || strings.HasPrefix(class, "^")
	if negated {
		class = class[1:]
	}
	const none = -1
	for from := rune(none); class != ""; {
		if from != none && class[0] == '-' && len(class) > 1 {
			var to rune
			to, class = first(class[1:])
			if from <= r && r <= to {
				return !negated
			}
			from = none
			continue
		}
		if from, class = first(class); from == r {
			return !negated
		}
	}
	return negated
}

// first returns the first character of a glob, which may be escaped, and the rest.
func first(glob string) (r rune, rest string) {
	if len(glob) > 1 && glob[0] == '\\' {
		glob = glob[1:]
	}
	r, length := utf8.DecodeRuneInString(glob)
	return r, glob[length:]
}
