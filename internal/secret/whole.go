package secret

import (
	"regexp"
	"strings"
)

// headers match headers whose whole line is secret.
var headers = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*["']?: *\\*["']?)((?:bearer|basic|token|digest|negotiate) +)?([^\r\n]+)`)

// bearer matches the value of a header whose name is missing.
var bearer = regexp.MustCompile(`(?i)\b(bearer[\s:="'\\]+|basic[ :]+)[A-Za-z0-9._~+/=-]{6,}`)

// plainWord matches a word of a sentence; tokens have digits, or capitals among their letters.
var plainWord = regexp.MustCompile(`^[a-z]+\.?$`)

// tokens are known by their beginning: JSON Web Tokens, and tokens of issuers that mark theirs so that they can be found.
var tokens = regexp.MustCompile(`\b(?:eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_.-]+|(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|ya29\.|ems_[0-9]+_)[A-Za-z0-9_.-]{10,})`)

// keys match private keys, also in a query.
var keys = regexp.MustCompile(`(?is)-{3,}BEGIN(?:[ +a-z0-9]|%20)*PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?-{3,}.*?` +
	`(?:-{3,}END(?:[ +a-z0-9]|%20)*PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?-{3,}|$)`)

// elements match XML elements with names of secrets; attributes match name="password" value="…", also in JSON.
var (
	elements   = regexp.MustCompile(`(?i)(<(?:[a-z0-9]+:)?` + nameOf + `(?:\s[^<>]*)?>(?:<!\[CDATA\[)?)\s*([^<\s][^<]*)`)
	attributes = regexp.MustCompile(`(?i)((?:name|key|id)\\*["']?\s*[:=]\s*\\*["']` + nameOf +
		`\\*["'][\s,]*\\*["']?value\\*["']?\s*[:=]\s*\\*["'])([^"<>]+)`)
)

// flags match flags of a command line with a value.
var flags = regexp.MustCompile(`(?i)((?:^|[\s"'(\[,=])--?` + nameOf + `)(["']?,?\s+)("[^"]*"?|'[^']*'?|[^\s"'-][^\s"']*)`)

// logins match a user with a password that a flag gives, as curl takes them.
var logins = regexp.MustCompile(`((?:^|[\s"'(\[,=])(?:-[uU]|--(?:proxy-)?user)["']?[=,]?\s*["']?[^\s:"'-][^\s:"']*:)([^\s"'/][^\s"']*)`)

// Whole returns a text without secrets that are known by their form: headers, keys, tokens, elements and flags.
func Whole(text string) string { return wholes(text) }

// wholes returns a text without secrets that extend to the end of their line, or further.
func wholes(text string) string {
	if strings.Contains(text, "---") {
		text = keys.ReplaceAllString(text, Mask)
	}
	text = tokens.ReplaceAllString(text, Mask)
	text = bearer.ReplaceAllStringFunc(text, func(value string) string {
		at := bearer.FindStringSubmatchIndex(value)
		if plainWord.MatchString(value[at[3]:]) && strings.HasSuffix(value[:at[3]], " ") {
			return value // a sentence: basic knowledge, the bearer brings
		}
		return value[:at[3]] + Mask
	})
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
	text = logins.ReplaceAllString(text, "${1}"+Mask)
	return flags.ReplaceAllStringFunc(text, func(flag string) string {
		at := flags.FindStringSubmatchIndex(flag)
		if value := flag[at[6]:]; word.MatchString(value) && strings.ToLower(value) == value {
			return flag // a sentence about the flag
		}
		return flag[:at[6]] + Mask + flag[at[6]+len(strings.TrimRight(flag[at[6]:], closers)):]
	})
}

// encoded matches letters that are encoded without need.
var encoded = regexp.MustCompile(`(?i)(?:\\+u00|%(?:25)*)(?:4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])`)

// plainLetters returns a text with these letters decoded, so that names are found.
func plainLetters(text string) string {
	if !strings.ContainsAny(text, `%\`) {
		return text
	}
	return encoded.ReplaceAllStringFunc(text, func(spelled string) string {
		letter, _ := hexByte(spelled[len(spelled)-2:])
		return string(rune(letter))
	})
}
