package secret

import (
	"regexp"
	"strings"
)

// headers are those whose whole line is secret.
var headers = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*["']?: *\\*["']?)((?:bearer|basic|token|digest|negotiate) +)?([^\r\n]+)`)

// bearer is what a header says whose name is not there.
var bearer = regexp.MustCompile(`(?i)\b(bearer[\s:="'\\]+|basic[ :]+)[A-Za-z0-9._~+/=-]{6,}`)

// tokens are known by how they begin: JSON Web Tokens, and those of some that mark theirs so that they can be found.
var tokens = regexp.MustCompile(`\b(?:eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_.-]+|(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|ya29\.)[A-Za-z0-9_.-]{10,})`)

// keys are private keys, in a query too.
var keys = regexp.MustCompile(`(?is)-{3,}BEGIN(?:[ +a-z0-9]|%20)*PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?-{3,}.*?` +
	`(?:-{3,}END(?:[ +a-z0-9]|%20)*PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?-{3,}|$)`)

// elements are those of XML whose names are secrets'; attributes have name="password" value="…", and so has JSON.
var (
	elements   = regexp.MustCompile(`(?i)(<(?:[a-z0-9]+:)?` + nameOf + `(?:\s[^<>]*)?>(?:<!\[CDATA\[)?)\s*([^<\s][^<]*)`)
	attributes = regexp.MustCompile(`(?i)((?:name|key|id)\\*["']?\s*[:=]\s*\\*["']` + nameOf +
		`\\*["'][\s,]*\\*["']?value\\*["']?\s*[:=]\s*\\*["'])([^"<>]+)`)
)

// flags are those of a command line, with a value of their own.
var flags = regexp.MustCompile(`(?i)((?:^|[\s"'(\[,=])--?` + nameOf + `)(["']?,?\s+)("[^"]*"?|'[^']*'?|[^\s"'-][^\s"']*)`)

// wholes is a text without what is secret up to the end of its line, or longer.
func wholes(text string) string {
	if strings.Contains(text, "---") {
		text = keys.ReplaceAllString(text, Mask)
	}
	text = tokens.ReplaceAllString(text, Mask)
	text = bearer.ReplaceAllString(text, "${1}"+Mask)
	if strings.Contains(text, "<") {
		text = elements.ReplaceAllString(text, "${1}"+Mask)
	}
	if strings.Contains(text, "value") {
		text = attributes.ReplaceAllString(text, "${1}"+Mask)
	}
	text = headers.ReplaceAllStringFunc(text, func(line string) string {
		at := headers.FindStringSubmatchIndex(line)
		value := line[at[8]:]
		return line[:at[8]] + Mask + value[len(strings.TrimRight(value, closers)):]
	})
	if !strings.Contains(text, "-") {
		return text
	}
	return flags.ReplaceAllStringFunc(text, func(flag string) string {
		at := flags.FindStringSubmatchIndex(flag)
		if value := flag[at[6]:]; word.MatchString(value) && strings.ToLower(value) == value {
			return flag // a sentence about the flag
		}
		return flag[:at[6]] + Mask + flag[at[6]+len(strings.TrimRight(flag[at[6]:], closers)):]
	})
}

// encoded are letters that need not be.
var encoded = regexp.MustCompile(`(?i)(?:\\+u00|%(?:25)*)(?:4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])`)

// plainLetters is a text whose letters stand for themselves, so that names are found.
func plainLetters(text string) string {
	if !strings.ContainsAny(text, `%\`) {
		return text
	}
	return encoded.ReplaceAllStringFunc(text, func(spelled string) string {
		letter, _ := hexByte(spelled[len(spelled)-2:])
		return string(rune(letter))
	})
}
