package secret

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Mask stands where a secret was.
const Mask = "REDACTED"

// shortest is how long a secret must be to be looked for in texts: a shorter one is in every other word.
const shortest = 6

// queries are those of URLs in a text: pre-authenticated URLs are secrets, and pages' links hold tokens.
var queries = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>?#]*)[?#][^\s"'<>]*`)

// users are those of URLs in a text, up to the last @ of the authority: a password may hold one.
var users = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'<>/?#]+@`)

// pairs are names of secrets with their values, as connection strings and queries without their URL have them.
var pairs = regexp.MustCompile(`(?i)\b((?:[a-z]+[_-])*(?:password|passwd|pwd|pass|passphrase|secret|token|api[_-]?key|authorization|auth|cookie|` +
	`sslpassword|sig|signature|credential|credentials)) ?= ?(?:'[^']*'|"[^"]*"|[^\s"'&;,<>)]+)`)

// bearer is what a header says.
var bearer = regexp.MustCompile(`(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]{6,}`)

// Cleaner takes secrets out of texts. A nil one knows none, and still takes out what may be one.
type Cleaner struct{ replace *strings.Replacer }

// NewCleaner knows these secrets, as they are and as they are written in URLs.
func NewCleaner(secrets ...string) *Cleaner {
	var known []string
	for _, s := range secrets {
		if len(s) >= shortest {
			known = append(known, s, url.QueryEscape(s), url.PathEscape(s), strings.Trim(fmt.Sprintf("%q", s), `"`))
		}
	}
	// The longest first: one may hold another.
	slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, k := range slices.Compact(known) {
		pairs = append(pairs, k, Mask)
	}
	return &Cleaner{replace: strings.NewReplacer(pairs...)}
}

// Text is a text without the secrets, without the queries and users of URLs, without what follows Bearer, and without
// the values of pairs such as password=….
func (c *Cleaner) Text(text string) string {
	if c != nil {
		text = c.replace.Replace(text)
	}
	if strings.Contains(text, "://") {
		text = URL(text)
	}
	return Pairs(bearer.ReplaceAllString(text, "${1} "+Mask))
}

// Text is Cleaner.Text of a cleaner that knows no secret. What a program of ours logs, and what it tells people about
// their connectors, has passed through it.
func Text(text string) string { return (*Cleaner)(nil).Text(text) }

// URL is a URL, or a text with URLs in it, without what they say after "?" and "#" and about who may enter. Every URL
// that is shown to anybody passes through here.
func URL(text string) string {
	return queries.ReplaceAllString(Users(text), "${1}?"+Mask)
}

// Users is a text whose URLs do not say who may enter.
func Users(text string) string { return users.ReplaceAllString(text, "${1}"+Mask+"@") }

// Pairs is a text without the values of pairs such as password=….
func Pairs(text string) string {
	if !strings.Contains(text, "=") {
		return text
	}
	return pairs.ReplaceAllString(text, "${1}="+Mask)
}

// Error is Cleaner.Error of a cleaner that knows no secret.
func Error(err error) error { return (*Cleaner)(nil).Error(err) }

// Error is an error whose text is clean. What it is to errors.Is and errors.As stays.
func (c *Cleaner) Error(err error) error {
	if err == nil {
		return nil
	}
	text := c.Text(err.Error())
	if text == err.Error() {
		return err
	}
	return &cleaned{text: text, err: err}
}

type cleaned struct {
	text string
	err  error
}

func (e *cleaned) Error() string        { return e.text }
func (e *cleaned) Is(target error) bool { return errors.Is(e.err, target) }
func (e *cleaned) As(target any) bool   { return errors.As(e.err, target) }
