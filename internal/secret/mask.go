package secret

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Masks are for texts of any form: errors of libraries, responses of servers, input in the wrong field. A mask that removes too
// much costs a word of a message; a mask that removes too little costs a password.

const (
	blanks = " \t\n\r\f\v"
	// closers may follow a URL or a value in a text, and belong to the text.
	closers = "\"'<>()[]{},.;:!`\\"
)

// URL returns a URL, or a text with URLs in it, without users, queries and fragments. Every URL that is shown to people passes
// through here. A query extends to white space: apostrophes and the like are legal in it.
func URL(text string) string { return urls(text, true) }

// Users returns a text whose URLs have no users.
func Users(text string) string { return urls(text, false) }

// OfURL is URL for a parsed one, whose end is known.
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

// loose matches a query whose URL has no scheme, or is torn by a blank.
var loose = regexp.MustCompile(`[?#][A-Za-z0-9_.$%~\[\]-]+=[^ \t\n\r\f\v]+`)

func urls(text string, queries bool) string {
	masked := schemeless.ReplaceAllString(newWalk(text).urls(queries), "${1}//"+Mask+"@")
	masked = mistyped(masked)
	if !queries {
		return masked
	}
	return loose.ReplaceAllStringFunc(masked, func(query string) string {
		core := strings.TrimRight(query, closers)
		return "?" + Mask + query[len(core):]
	})
}

func (w *walk) urls(queries bool) string {
	var out strings.Builder
	pos := 0
	for {
		at := strings.Index(w.text[pos:], "://")
		if at < 0 {
			break
		}
		at += pos
		begin, start := w.schemeBefore(pos, at), at+3
		out.WriteString(w.text[pos:start])
		pos = start
		if begin == at {
			continue
		}
		end := w.endOfURL(start)
		if whole := w.text[start:end]; end < len(w.text) && unportable(whole) && !strings.Contains(whole, "@") {
			// A password with a blank in it: up to the last @ of the line.
			if last := w.lastAt(end); last > end {
				end = w.endOfURL(last)
			}
		}
		whole := w.text[start:end]
		core := strings.TrimRight(whole, closers)
		out.WriteString(maskOne(strings.ToLower(w.text[begin:at]), core, queries))
		out.WriteString(whole[len(core):])
		w.looked += end - start
		pos = end
	}
	out.WriteString(w.text[pos:])
	w.looked += len(w.text) - pos
	return out.String()
}

// schemeBefore is the beginning of the scheme that ends at a place.
func (w *walk) schemeBefore(from, end int) int {
	begin := end
	for begin > from && isSchemeByte(w.text[begin-1]) {
		begin--
	}
	w.looked += end - begin
	for begin < end && !isLetter(w.text[begin]) {
		begin++
	}
	return begin
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isSchemeByte(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'
}

// endOfURL is the next white space, or the next URL of a list. Within a query another URL is part of it.
func (w *walk) endOfURL(start int) int {
	end := w.blank.next(w, start)
	next := strings.Index(w.text[start:end], "://")
	if next < 0 {
		return end
	}
	w.looked += next
	if next += start; w.query.next(w, start) < next {
		return end
	}
	if begin := w.schemeBefore(start, next); begin < next {
		return begin
	}
	return end
}

// lastAt is the place of the last @ of a line; from is within the line.
func (w *walk) lastAt(from int) int {
	end := w.line.next(w, from)
	if end != w.lineEnd {
		w.lineEnd, w.lineLast = end, strings.LastIndexByte(w.text[from:end], '@')+from
		w.looked += end - from
	}
	return w.lineLast
}

// unportable says that the part before the path is no host with a port: it is a password with a character that a URL must
// escape.
func unportable(rest string) bool {
	authority := rest
	if at := strings.IndexAny(rest, `/?#\`); at >= 0 {
		authority = rest[:at]
	}
	authority = strings.TrimRight(authority, closers)
	colon := strings.LastIndex(authority, ":")
	return colon >= 0 && !strings.HasPrefix(authority, "[") && strings.Trim(authority[colon+1:], "0123456789") != ""
}

// servers are the schemes whose URLs have a password, and no @ in the path.
var servers = []string{"postgres", "postgresql", "nats", "tls", "ws", "wss"}

// maskOne masks the part after "://".
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
	// A password may contain characters that end an authority.
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

// digitsThenPath says that a password of digits with a slash may be in the place of a port.
func digitsThenPath(rest string) bool {
	host, after, found := strings.Cut(rest, ":")
	return found && !strings.ContainsAny(host, "/.[") && host != "localhost" && after != ""
}

// schemeless matches users of a URL that begins with its host.
var schemeless = regexp.MustCompile(`(^|[\s"'(=])//[^\s/?#@]*:[^\s/?#]*@`)

// users matches users of a URL that lacks a slash or two, or its scheme, or is encoded as a whole: bob:password@host.
var users = regexp.MustCompile(`(?i)([^\s/\\?#@:"'<>(){}\[\],;=%]+)(:|%(?:25)*3A)([^\s/\\"'<>]+)(@|%(?:25)*40)`)

func mistyped(text string) string {
	if !strings.Contains(text, "@") && !strings.Contains(text, "40") {
		return text
	}
	var out strings.Builder
	end := 0
	for _, at := range users.FindAllStringSubmatchIndex(text, -1) {
		if isAddress(text[:at[2]], text[at[2]:at[3]], text[at[6]:at[7]]) {
			continue
		}
		out.WriteString(text[end:at[6]] + Mask)
		end = at[7]
	}
	out.WriteString(text[end:])
	return out.String()
}

// isAddress tells whether the part before an @ belongs to a mail address: in mailto:bob@host, and in tenant/user:bob@host, as
// operators list allowed users.
func isAddress(before, name, local string) bool {
	if strings.Contains(local, ":") {
		return false
	}
	switch strings.ToLower(name) {
	case "mailto":
		return true
	case "user", "group":
		return len(before) > 1 && before[len(before)-1] == '/' && isWord(before[len(before)-2])
	}
	return false
}
