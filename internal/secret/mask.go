package secret

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// What is masked is decided for texts that nobody has parsed: errors of libraries, answers of servers, what people typed
// into the wrong field. A mask that takes too much costs a word of a message; one that takes too little, a password.

const (
	blanks = " \t\n\r\f\v"
	// closers may stand behind a URL or a value in a text, and belong to the text.
	closers = "\"'<>()[]{},.;:!`\\"
)

// URL is a URL, or a text with URLs in it, without what they say after "?" and "#" and about who may enter. Every URL
// that is shown to anybody passes through here. A query goes up to white space: apostrophes and the like are legal in it.
func URL(text string) string { return urls(text, true) }

// Users is a text whose URLs do not say who may enter.
func Users(text string) string { return urls(text, false) }

// OfURL is URL of one that is parsed, which needs no guess where it ends.
func OfURL(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery, shown.ForceQuery, shown.Fragment, shown.RawFragment = nil, "", false, "", ""
	text := shown.String()
	if u.User != nil && u.Host != "" {
		text = strings.Replace(text, "//", "//"+Mask+"@", 1)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		text += "?" + Mask
	}
	return text
}

// loose is a query whose URL has no scheme, or is torn by a blank.
var loose = regexp.MustCompile(`[?#][A-Za-z0-9_.$%~\[\]-]+=[^ \t\n\r\f\v]+`)

func urls(text string, queries bool) string {
	var out strings.Builder
	rest := text
	for {
		at := strings.Index(rest, "://")
		if at < 0 {
			break
		}
		if schemeBefore(rest, at) == at {
			out.WriteString(rest[:at+3])
			rest = rest[at+3:]
			continue
		}
		scheme := strings.ToLower(rest[schemeBefore(rest, at):at])
		out.WriteString(rest[:at+3])
		rest = rest[at+3:]
		end := endOfURL(rest)
		whole := rest[:end]
		if end < len(rest) && unportable(whole) && !strings.Contains(whole, "@") {
			// A password with a blank in it: up to the last @ of the line.
			line, _, _ := strings.Cut(rest, "\n")
			if last := strings.LastIndex(line, "@"); last > end {
				end = last + endOfURL(line[last:])
				whole = rest[:end]
			}
		}
		rest = rest[end:]
		core := strings.TrimRight(whole, closers)
		out.WriteString(maskOne(scheme, core, queries))
		out.WriteString(whole[len(core):])
	}
	out.WriteString(rest)
	masked := schemeless.ReplaceAllString(out.String(), "${1}//"+Mask+"@")
	if !queries {
		return masked
	}
	return loose.ReplaceAllStringFunc(masked, func(query string) string {
		core := strings.TrimRight(query, closers)
		return "?" + Mask + query[len(core):]
	})
}

// schemeBefore is where the scheme begins that ends at a place.
func schemeBefore(text string, end int) int {
	begin := end
	for begin > 0 && isSchemeByte(text[begin-1]) {
		begin--
	}
	for begin < end && !isLetter(text[begin]) {
		begin++
	}
	return begin
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isSchemeByte(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'
}

// endOfURL is where white space begins, or another URL of a list. In a query another URL is part of it.
func endOfURL(rest string) int {
	end := len(rest)
	if at := strings.IndexAny(rest, blanks); at >= 0 {
		end = at
	}
	next := strings.Index(rest[:end], "://")
	if query := strings.IndexAny(rest[:end], "?#"); next >= 0 && (query < 0 || next < query) {
		if begin := schemeBefore(rest, next); begin < next {
			end = begin
		}
	}
	return end
}

// unportable says that what stands before the path is no host with a port: a password with a character that a URL does
// not take as it is.
func unportable(rest string) bool {
	authority := rest
	if at := strings.IndexAny(rest, `/?#\`); at >= 0 {
		authority = rest[:at]
	}
	authority = strings.TrimRight(authority, closers)
	colon := strings.LastIndex(authority, ":")
	return colon >= 0 && !strings.HasPrefix(authority, "[") && strings.Trim(authority[colon+1:], "0123456789") != ""
}

// servers are the schemes of those whose URLs have a password, and no path with an @.
var servers = []string{"postgres", "postgresql", "nats", "tls", "ws", "wss"}

// maskOne masks what follows "://".
func maskOne(scheme, rest string, queries bool) string {
	masked := ""
	cut := func(at int) { masked, rest = Mask+"@", rest[at+1:] }
	authority := len(rest)
	if at := strings.IndexAny(rest, `/?#\`); at >= 0 {
		authority = at
	}
	if at := strings.LastIndex(rest[:authority], "@"); at >= 0 {
		cut(at)
	}
	path := len(rest)
	if at := strings.IndexAny(rest, "?#"); at >= 0 {
		path = at
	}
	// A password may hold what ends an authority.
	last, broken := strings.LastIndex(rest[:path], "@"), unportable(rest)
	switch {
	case last >= 0 && (broken || slices.Contains(servers, scheme) || digitsThenPath(rest)):
		cut(last)
	case broken && strings.Contains(rest[path:], "@"):
		return masked + Mask
	}
	if at := strings.IndexAny(rest, "?#"); queries && at >= 0 {
		rest = rest[:at] + "?" + Mask
	}
	return masked + rest
}

// digitsThenPath says that a password of digits with a slash may stand where a port would.
func digitsThenPath(rest string) bool {
	host, after, found := strings.Cut(rest, ":")
	return found && !strings.ContainsAny(host, "/.[") && host != "localhost" && after != ""
}

// schemeless are users of a URL that begins with its host.
var schemeless = regexp.MustCompile(`(^|[\s"'(=])//[^\s/?#@]*:[^\s/?#]*@`)

// headers are those whose whole line is secret.
var headers = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*["']?: *\\*["']?)((?:bearer|basic|token|digest|negotiate) +)?([^\r\n]+)`)

// bearer is what a header says whose name is not there.
var bearer = regexp.MustCompile(`(?i)\b(bearer[ :"'\\]+|basic +)[A-Za-z0-9._~+/=-]{6,}`)

// keys are private keys.
var keys = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`)

// wholes is a text without what is secret up to the end of its line, or longer.
func wholes(text string) string {
	if strings.Contains(text, "-----BEGIN") {
		text = keys.ReplaceAllString(text, Mask)
	}
	text = bearer.ReplaceAllString(text, "${1}"+Mask)
	return headers.ReplaceAllStringFunc(text, func(line string) string {
		at := headers.FindStringSubmatchIndex(line)
		value := line[at[8]:]
		return line[:at[8]] + Mask + value[len(strings.TrimRight(value, closers)):]
	})
}

// names are those of secrets, with what stands between them and their values: in a query, a connection string, the
// environment, JSON (in a string of JSON too), YAML.
var names = regexp.MustCompile(`(?i)(?:^|[^a-z0-9_])((?:[a-z0-9]+[_.-])*(?:` +
	`[a-z0-9]*(?:password|passwd|passphrase|secret|credentials?|signature|token)|` +
	`(?:[a-z0-9]*(?:api|access|account|secret|private|shared|encryption))[_-]?key|` +
	`(?:temp|o)?auth|(?:pg)?pass|pwd|sig|cookie|authorization))` +
	`(\\*["']?)[ \t]*(=>?\s*|:[ \t]*|%3D)`)

// Pairs is a text without the values of pairs such as password=… and "password": "…".
func Pairs(text string) string {
	var out strings.Builder
	for {
		at := names.FindStringSubmatchIndex(text)
		if at == nil {
			out.WriteString(text)
			return out.String()
		}
		sep, rest := text[at[6]:at[7]], text[at[7]:]
		begin, end := valueIn(rest)
		colon := strings.HasPrefix(sep, ":")
		switch {
		case end == 0, colon && begin == 0 && !isQuoted(text, at[2], at[5]) && prose(text[:at[2]], text[at[2]:at[3]], rest, end):
			out.WriteString(text[:at[7]])
			text = rest
			continue
		case colon:
			out.WriteString(text[:at[7]] + rest[:begin] + Mask)
		default:
			out.WriteString(text[:at[5]] + "=" + Mask)
			if begin > 0 && len(rest) > end { // without its quotes
				end += begin
			}
		}
		text = rest[end:]
	}
}

// isQuoted tells whether a name stands in quotes: one may also be the end of a URL that does.
func isQuoted(text string, begin, end int) bool {
	return begin > 0 && strings.IndexByte(`"'`, text[begin-1]) >= 0 && text[end-1] == text[begin-1]
}

// valueIn is where a value begins and ends; nowhere where there is none, or an object whose own pairs are looked at.
func valueIn(rest string) (begin, end int) {
	slashes := len(rest) - len(strings.TrimLeft(rest, `\`))
	switch {
	case slashes < len(rest) && strings.IndexByte(`"'`, rest[slashes]) >= 0:
		return slashes + 1, slashes + 1 + quotedEnd(rest[slashes+1:], rest[:slashes+1])
	case rest == "" || strings.IndexByte("[{", rest[0]) >= 0:
		return 0, 0
	}
	for end < len(rest) && !strings.ContainsRune(blanks, rune(rest[end])) {
		if rest[end] == '\\' && end+1 < len(rest) { // as connection strings escape
			end++
		} else if strings.IndexByte("&;,", rest[end]) >= 0 && another.MatchString(rest[end+1:]) {
			break
		}
		end++
	}
	return 0, len(strings.TrimRight(rest[:end], closers))
}

// another is what follows a separator that is no part of a value.
var another = regexp.MustCompile(`^(?:\s|$|[A-Za-z0-9_.$ -]+=)`)

// quotedEnd is where a quoted value ends: at its quote, with as many backslashes as the first has. One that is escaped or
// doubled is part of it, and one that is missing is at the end.
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

var (
	word   = regexp.MustCompile(`^[A-Za-z][A-Za-z'’-]*[,.;:]?$`)
	strong = regexp.MustCompile(`(?i)(?:password|passwd|passphrase|pwd|[_-]secret|[_-]key)$`)
)

// prose tells whether what follows a colon is a sentence of ours or of a library's ("get a token: it is refused") and no
// value.
func prose(before, name, rest string, end int) bool {
	value := rest[:end]
	more, _, _ := strings.Cut(strings.TrimLeft(rest[end:], closers), "\n")
	if more != "" && word.MatchString(value) || len(value) < shortest && strings.Trim(value, "0123456789") == "" {
		return true
	}
	before = strings.TrimRight(before, " \t")
	if before == "" || strings.IndexByte("{[(,;:\"'`\r\n", before[len(before)-1]) >= 0 {
		return false // it stands where a field does
	}
	return !strong.MatchString(name) || strings.HasPrefix(rest[end:], ": ")
}
