package secret

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// longestSpelling is how many bytes one character takes at most: &#x10FFFF; with some %25.
const longestSpelling = 12

// known is a secret to search for: as it is, and in the one spelling into which all others are converted.
type known struct{ raw, plain string }

func newKnown(secret string) known {
	k := known{raw: secret}
	if p := spell(secret); len(p.text) >= shortest {
		k.plain = string(p.text)
	}
	return k
}

// spelling is a text in the spelling in which secrets are compared: %2F, \u002f and &#47; become a slash, backslashes are
// dropped, a blank and a plus are the same, and so are a line's end and the n of \n. It takes as much memory as the text.
type spelling struct {
	text []byte
	// at is the place of each of its bytes in the text, and at the end the place after the last one.
	at []int32
}

func spell(text string) spelling {
	p := spelling{text: make([]byte, 0, len(text)), at: make([]int32, 0, len(text)+1)}
	end := 0
	for at := 0; at < len(text); {
		begin := at
		for at < len(text) && text[at] == '\\' {
			at++
		}
		if at == len(text) {
			break
		}
		var size int
		var one [utf8.UTFMax]byte
		char := one[:1]
		switch c := text[at]; {
		case c == 'u' && at > begin:
			char, size = escaped(text[at:], one[:0])
		case c == '%':
			one[0], size = percent(text[at:])
		case c == '&':
			char, size = entity(text[at:], one[:0])
		}
		if size == 0 {
			char, size = append(one[:0], text[at]), 1
		}
		at += size
		for _, b := range char {
			if b = folded(b); b != '\\' {
				p.text, p.at = append(p.text, b), append(p.at, int32(begin)) //nolint:gosec // a text has at most MaxText
			}
		}
		end = at
	}
	p.at = append(p.at, int32(end)) //nolint:gosec // as above
	return p
}

func folded(b byte) byte {
	switch b {
	case '+':
		return ' '
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return b
}

// percent reads %2F, %252F and so on; size is 0 for anything else.
func percent(text string) (b byte, size int) {
	at := 1
	for strings.HasPrefix(text[at:], "25") {
		at += 2
	}
	if b, is := hexByte(text[at:]); is {
		return b, at + 2
	}
	if at > 1 {
		return '%', at
	}
	return 0, 0
}

func hexByte(text string) (b byte, is bool) {
	n, is := hexNumber(text, 2)
	return byte(n), is //nolint:gosec // two digits
}

// hexNumber reads so many digits. strconv would allocate an error for each text that is no number.
func hexNumber(text string, digits int) (n rune, is bool) {
	if len(text) < digits {
		return 0, false
	}
	for i := range digits {
		at := strings.IndexByte("0123456789abcdef", text[i])
		if c := text[i] | 0x20; at < 0 && c >= 'a' && c <= 'f' {
			at = int(c-'a') + 10
		}
		if at < 0 {
			return 0, false
		}
		n = n<<4 | rune(at) //nolint:gosec // below 16
	}
	return n, true
}

// escaped reads u002f, whose backslash came before, and both halves of a surrogate pair.
func escaped(text string, to []byte) (char []byte, size int) {
	unit := func(text string) (rune, bool) {
		if text == "" || text[0] != 'u' {
			return 0, false
		}
		return hexNumber(text[1:], 4)
	}
	r, is := unit(text)
	if !is {
		return nil, 0
	}
	size = 5
	if utf16.IsSurrogate(r) {
		next := size
		for next < len(text) && text[next] == '\\' {
			next++
		}
		if low, is := unit(text[next:]); is && next > size {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				r, size = both, next+5
			}
		}
	}
	return utf8.AppendRune(to, r), size
}

// entities are the characters with names in HTML.
var entities = map[string]byte{"quot;": '"', "lt;": '<', "gt;": '>', "apos;": '\'', "amp;": '&'}

// entity reads &quot;, &#47;, &#x2f;, &amp;quot; and so on.
func entity(text string, to []byte) (char []byte, size int) {
	at := 1
	for strings.HasPrefix(text[at:], "amp;") {
		at += 4
	}
	for name, b := range entities {
		if strings.HasPrefix(text[at:], name) {
			return append(to, b), at + len(name)
		}
	}
	if number, is := strings.CutPrefix(text[at:], "#"); is {
		base := 10
		if hex := strings.TrimPrefix(strings.TrimPrefix(number, "x"), "X"); hex != number {
			number, base = hex, 16
		}
		digits := strings.IndexByte(number[:min(len(number), longestSpelling)], ';')
		if n, err := strconv.ParseUint(number[:max(digits, 0)], base, 32); err == nil && n <= utf8.MaxRune {
			return utf8.AppendRune(to, rune(n)), len(text) - len(number) + digits + 1
		}
	}
	if at > 1 {
		return append(to, '&'), at
	}
	return nil, 0
}

// without returns a text without these secrets. Where a text is cut, the beginning of a secret is removed from its end.
func without(text string, cut bool, secrets ...[]known) string {
	var found [][2]int
	var p spelling
	var spelled string
	for _, list := range secrets {
		for _, k := range list {
			if p.at == nil {
				p = spell(text)
				spelled = string(p.text)
			}
			found = append(found, occurrences(text, k.raw, cut)...)
			if k.plain == "" {
				continue
			}
			for _, at := range occurrences(spelled, k.plain, cut) {
				last := at[1]
				for last < len(p.text) && p.at[last] == p.at[last-1] {
					last++ // a character of several bytes
				}
				found = append(found, [2]int{int(p.at[at[0]]), int(p.at[last])})
			}
		}
	}
	if len(found) == 0 {
		return text
	}
	slices.SortFunc(found, func(a, b [2]int) int { return a[0] - b[0] })
	var out strings.Builder
	end := 0
	for i, at := range found {
		if i == 0 || at[0] >= end {
			out.WriteString(text[end:at[0]])
			out.WriteString(Mask)
		}
		end = max(end, at[1])
	}
	out.WriteString(text[end:])
	return out.String()
}

func occurrences(text, secret string, cut bool) (found [][2]int) {
	at := 0
	for {
		next := strings.Index(text[at:], secret)
		if next < 0 {
			break
		}
		found = append(found, [2]int{at + next, at + next + len(secret)})
		at += next + len(secret)
	}
	if cut {
		if n := overlap(text[at:], secret); n >= shortest/2 {
			found = append(found, [2]int{len(text) - n, len(text)})
		}
	}
	return found
}

// overlap is the length of a text's end that is the beginning of a secret.
func overlap(text, secret string) int {
	text = text[max(0, len(text)-len(secret)+1):]
	borders := make([]int32, len(secret)) // the longest proper border of each prefix
	step := func(n int, b byte) int {
		for n > 0 && secret[n] != b {
			n = int(borders[n-1])
		}
		if secret[n] == b {
			n++
		}
		return n
	}
	n := 0
	for i := 1; i < len(secret); i++ {
		n = step(n, secret[i])
		borders[i] = int32(n) //nolint:gosec // a secret has at most MaxBytes
	}
	n = 0
	for i := range len(text) {
		n = step(n, text[i])
	}
	return n
}
