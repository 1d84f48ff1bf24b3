package secret

import (
	"regexp"
	"slices"
	"strings"
)

// nameOf matches the name of a secret, or of several secrets.
const nameOf = `(?:[a-z0-9]+[_.-])*(?:` +
	`(?:[a-z0-9]*(?:password|passwd|passphrase|passwort|kennwort|secret|signature|token|assertion|jwt)|` +
	`[a-z0-9]*(?:api|access|account|secret|private|shared|encryption|subscription)[_ -]?key|(?:j|php)?sess(?:ion)?id)s?|` +
	`[a-z0-9]*credentials?|(?:temp|o)?auth|(?:pg)?pass|pwd|pw|sig|sas|cookie|authorization)`

// invisible matches characters that may be beside a separator: blanks that do not break a line, and characters without width.
const invisible = `[ \t\x00\x{a0}\x{ad}\x{200b}-\x{200d}\x{feff}]*`

// names match names of secrets, with the text between them and their values: in a query, a connection string, the environment,
// JSON (also in a JSON string), YAML, Go, HTML.
var names = regexp.MustCompile(`(?i)(?:^|[^a-z0-9_])` + named)

const named = `(` + nameOf + `)(\\*["']?|%22)` + invisible +
	`(:=\s*|=+>?\s*|->\s*|＝|%(?:25)*3[AD]|&#0*(?:58|61);|&equals;|&colon;|[:：]` + invisible + `(?:!!?\w* +|&\w+ +)?)`

// separators and roots: names matches nowhere in a text without one of each, whatever else it has. Most texts have none, and are
// looked at much faster for these than for names.
var (
	separators = []string{":", "=", "->", "＝", "%", "&", "："}
	roots      = []string{
		"pass", "kennwort", "secret", "sig", "token", "assertion", "jwt", "key", "sess", "credential", "auth", "pw", "sas", "cookie",
	}
)

// mayHavePairs is false only where names does not match.
func mayHavePairs(text string) bool {
	if !hasOneOf(text, separators) {
		return false
	}
	// The letters that (?i) takes for an s and a k: ſ, and the sign of Kelvin, which ToLower makes a k.
	return hasOneOf(strings.ReplaceAll(strings.ToLower(text), "ſ", "s"), roots)
}

func hasOneOf(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// Pairs returns a text without the values of pairs such as password=… and "password": "…".
func Pairs(text string) string { return newWalk(text).pairs() }

func (w *walk) pairs() string {
	if !mayHavePairs(w.text) {
		w.looked += len(w.text)
		return w.text
	}
	var out strings.Builder
	pos := 0
	for {
		text := w.text[pos:]
		at := names.FindStringSubmatchIndex(text)
		if at == nil {
			out.WriteString(text)
			w.looked += len(text)
			return out.String()
		}
		w.looked += at[7]
		name, sep, start := text[at[2]:at[3]], text[at[6]:at[7]], pos+at[7]
		begin, end := w.valueIn(start)
		colon := strings.HasPrefix(sep, ":") || strings.HasPrefix(sep, "：")
		bare := begin == start
		if colon && bare && isField(text[:at[2]]) {
			if from, to := w.below(start); to > from {
				begin, end, bare = from, to, false
			}
		}
		switch {
		case end <= start, severalWithout(name, w.text[start]),
			colon && bare && !isQuoted(text, at[2], at[5]) && w.isProse(text[:at[2]], name, start, end):
			out.WriteString(text[:at[7]])
			pos = start
			continue
		case colon:
			out.WriteString(text[:at[7]] + w.text[start:begin] + Mask)
		default:
			out.WriteString(text[:at[5]] + "=" + Mask)
			if !bare && len(w.text) > end { // without its quotes
				end += begin - start
			}
		}
		pos = end
	}
}

// severalWithout says that a name means several secrets, and no list follows: max_tokens=4.
func severalWithout(name string, next byte) bool {
	lower := strings.ToLower(name)
	return next != '[' && next != '{' && strings.HasSuffix(lower, "s") && !strings.HasSuffix(lower, "credentials") &&
		!strings.HasSuffix(lower, "pass") && !strings.HasSuffix(lower, "sas")
}

// isQuoted tells whether a name is in quotes: a quote may also be the end of a quoted URL.
func isQuoted(text string, begin, end int) bool {
	return begin > 0 && strings.IndexByte(`"'`, text[begin-1]) >= 0 && text[end-1] == text[begin-1]
}

// valueIn is the beginning and end of a value; both are the same where there is none, or where it is a list of objects, whose
// own pairs are looked at.
func (w *walk) valueIn(start int) (begin, end int) {
	rest := w.text[start:]
	slashes := len(rest) - len(strings.TrimLeft(rest, `\`))
	w.looked += slashes
	switch {
	case slashes < len(rest) && strings.IndexByte(`"'`, rest[slashes]) >= 0:
		begin = start + slashes + 1
		end = begin + quotedEnd(w.text[begin:], rest[:slashes+1])
		w.looked += end - begin
		if slashes == 0 && end+1 < len(w.text) && isWord(w.text[end+1]) { // a shell joins adjacent words
			return start, w.bareEnd(end + 1)
		}
		return begin, end
	case rest == "":
		return start, start
	case rest[0] == '[' || rest[0] == '{':
		if rest[0] == '[' && strings.HasPrefix(strings.TrimLeft(rest[1:min(len(rest), 80)], blanks), "{") {
			return start, start
		}
		end = start + bracketEnd(rest)
		w.looked += end - start
		return start + 1, end
	}
	return start, w.bareEnd(start)
}

func isWord(b byte) bool { return isLetter(b) || b >= '0' && b <= '9' || b >= 0x80 }

// bareEnd is the end of a value without quotes.
func (w *walk) bareEnd(start int) int {
	if v := &w.value; start < v.begin || start > v.end || v.end == 0 {
		v.begin, v.end = start, start
		for v.end < len(w.text) && strings.IndexByte(blanks, w.text[v.end]) < 0 {
			if w.text[v.end] == '\\' && v.end+1 < len(w.text) { // an escape of connection strings
				v.end++
			} else if strings.IndexByte("&;,", w.text[v.end]) >= 0 && w.endsValue(v.end+1) {
				break
			}
			v.end++
		}
		v.core = start + len(strings.TrimRight(w.text[start:v.end], closers))
		w.looked += 2 * (v.end - start)
	}
	return max(start, w.value.core)
}

// endsValue tells whether the text after a separator is not part of a value: a blank, the end, or the next pair.
func (w *walk) endsValue(at int) bool {
	end := at
	for end < len(w.text) && (isWord(w.text[end]) && w.text[end] < 0x80 || strings.IndexByte("_.$ -", w.text[end]) >= 0) {
		end++
	}
	w.looked += end - at
	return at == len(w.text) || strings.IndexByte(blanks, w.text[at]) >= 0 || end > at && end < len(w.text) && w.text[end] == '='
}

// quotedEnd is the end of a quoted value: its quote, with as many backslashes as the first has. An escaped or doubled quote is
// part of the value; where the closing quote is missing, the value ends with the text.
func quotedEnd(rest, quote string) int {
	mark, escaped := quote[len(quote)-1], len(quote)-1
	for i := 0; i < len(rest); i++ {
		begin := i
		for i < len(rest) && rest[i] == '\\' {
			i++
		}
		if i == len(rest) || rest[i] != mark {
			continue
		}
		slashes := i - begin
		switch {
		case escaped > 0 && slashes <= escaped:
			return begin
		case escaped > 0 || slashes%2 == 1:
		case mark == '\'' && strings.HasPrefix(rest[i+1:], "'"):
			i++
		default:
			return i
		}
	}
	return len(rest)
}

// bracketEnd is the end of a list or an object: before its bracket, or the end of the text.
func bracketEnd(rest string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(rest); i++ {
		switch b := rest[i]; {
		case b == '\\':
			i++
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == '"':
			quote = b
		case b == '[' || b == '{':
			depth++
		case b == ']' || b == '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(rest)
}

// below is the value of a YAML name in the lines below it: a text after | or >, a value, a list. Fields have their own names.
func (w *walk) below(start int) (begin, end int) {
	first := w.line.next(w, start)
	head := strings.TrimSpace(w.text[start:first])
	block := len(head) > 0 && len(head) <= 3 && (head[0] == '|' || head[0] == '>')
	if head != "" && !block {
		return 0, 0
	}
	begin = first
	for end = first; end < len(w.text); {
		next := w.line.next(w, end+1)
		line := w.text[end+1 : next]
		w.looked += len(line)
		trimmed := strings.TrimLeft(line, " \t")
		if trimmed == line && !strings.HasPrefix(line, "- ") && line != "" || !block && field.MatchString(line) {
			break
		}
		if begin == first && trimmed != "" {
			begin = next - len(trimmed)
		}
		end = next
	}
	if begin == first {
		return 0, 0
	}
	return begin, end
}

// field matches a line of YAML with its own name.
var field = regexp.MustCompile(`^[\s-]*["']?[\w. -]{1,80}["']?:(?:\s|$)`)

var (
	word   = regexp.MustCompile(`^[A-Za-z][A-Za-z'’-]*[,.;:]?$`)
	strong = regexp.MustCompile(`(?i)(?:password|passwd|passphrase|pwd|[_-]secret|[_-]key)$`)
)

// isField tells whether the rest of a text is where a field can be.
func isField(before string) bool {
	line := before[strings.LastIndexByte(before, '\n')+1:]
	before = strings.TrimRight(before, " \t")
	return strings.Trim(line, " \t-") == "" || strings.IndexByte("{[(,;:\"'`\r\n", before[len(before)-1]) >= 0
}

// isProse tells whether the text after a colon is a sentence of ours or of a library's ("get a token: it is refused") and no
// value.
func (w *walk) isProse(before, name string, start, end int) bool {
	value := w.text[start:end]
	if w.hasMore(end) && word.MatchString(value) || len(value) < shortest && strings.Trim(value, "0123456789") == "" {
		return true
	}
	return !isField(before) && (!strong.MatchString(name) || strings.HasPrefix(w.text[end:], ": "))
}

// hasMore tells whether the line has more text.
func (w *walk) hasMore(at int) bool {
	if w.value.begin <= at && at <= w.value.end {
		at = w.value.end
	}
	for most := at + 16; at < len(w.text) && at < most && strings.IndexByte(closers, w.text[at]) >= 0; {
		at++
	}
	return at < len(w.text) && w.text[at] != '\n'
}
