package secret

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// Mask stands where a secret was.
const Mask = "REDACTED"

// shortest is how long a secret must be to be looked for in texts: a shorter one is in every other word.
const shortest = 6

// Cleaner takes secrets out of texts. A nil one knows none, and still takes out what may be one.
type Cleaner struct{ known []*regexp.Regexp }

// NewCleaner knows these secrets, as they are and as they are written in URLs, in JSON and in Go's quotes.
func NewCleaner(secrets ...string) *Cleaner {
	c := &Cleaner{}
	// The longest first: one may hold another.
	sorted := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) })
	for _, s := range slices.Compact(sorted) {
		if len(s) >= shortest {
			c.known = append(c.known, spellings(s))
		}
	}
	return c
}

// spellings finds a secret however each of its characters is written. Letters and digits stand for themselves everywhere.
func spellings(s string) *regexp.Regexp {
	var all strings.Builder
	for _, r := range s {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			all.WriteRune(r)
			continue
		}
		fmt.Fprintf(&all, `(?:\\*%s|(?i:`, regexp.QuoteMeta(string(r)))
		for _, b := range []byte(string(r)) {
			fmt.Fprintf(&all, "%%(?:25)?%02x", b)
		}
		all.WriteString("|")
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&all, `\\+u%04x`, unit)
		}
		fmt.Fprintf(&all, `|&#0*%d;|&#x0*%x;)`, r, r)
		if other := otherwise[r]; other != "" {
			all.WriteString("|" + other)
		}
		all.WriteString(")")
	}
	return regexp.MustCompile(all.String())
}

// otherwise are characters that have a name somewhere.
var otherwise = map[rune]string{
	' ': `\+`, '\n': `\\+n`, '\r': `\\+r`, '\t': `\\+t`, '"': `&quot;`, '&': `&amp;`, '<': `&lt;`, '>': `&gt;`,
}

// Text is a text without the secrets, without the queries and users of URLs, without what follows Bearer, without private
// keys, and without the values of pairs such as password=….
func (c *Cleaner) Text(text string) string {
	if c != nil {
		for _, known := range c.known {
			text = known.ReplaceAllLiteralString(text, Mask)
		}
	}
	return Pairs(wholes(URL(text)))
}

// Text is Cleaner.Text of a cleaner that knows no secret. What a program of ours logs, and what it tells people about
// their connectors, has passed through it.
func Text(text string) string { return (*Cleaner)(nil).Text(text) }

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
