package secret

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Mask replaces a secret.
const Mask = "REDACTED"

const (
	// shortest is the length below which a secret is not looked for in texts: it would be in every other word.
	shortest = 6
	// MaxText is the largest part of a text that is shown.
	MaxText = 64 << 10
	// maxLearned is how many learned secrets a cleaner keeps: a run has one access token at a time, and a text may hold the one
	// before.
	maxLearned = 8
	// more replaces the part of a text that is cut.
	more = "…"
	// beyond is how many bytes after the shown part are looked at: a password is recognised by the "@" after it.
	beyond = 1 << 10
)

// Cleaner removes secrets from texts. A nil Cleaner knows no secret, and still removes what may be one. It is safe for
// concurrent use.
type Cleaner struct {
	mu             sync.RWMutex
	known, learned []known
}

// NewCleaner makes a cleaner that knows these secrets, as they are and as they are written in URLs, in JSON, in HTML and in
// Go's quotes.
func NewCleaner(secrets ...string) *Cleaner {
	c := &Cleaner{}
	for _, s := range secrets {
		if len(s) >= shortest {
			c.known = append(c.known, newKnown(s))
		}
	}
	return c
}

// Learn adds a secret that came later, such as an access token. The cleaner keeps the last ones. A nil cleaner learns nothing.
func (c *Cleaner) Learn(secret string) {
	if c == nil || len(secret) < shortest {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	is := func(k known) bool { return k.raw == secret }
	if slices.ContainsFunc(c.known, is) || slices.ContainsFunc(c.learned, is) {
		return
	}
	// A new list: a reader may use the old one.
	c.learned = append(slices.Clone(c.learned[max(0, len(c.learned)-maxLearned+1):]), newKnown(secret))
}

// Text returns a text without the secrets, without the queries and users of URLs, without the rest of a line after Bearer,
// without private keys, and without the values of pairs such as password=…. It has MaxText bytes at most, and a mark where it
// was cut.
func (c *Cleaner) Text(text string) string {
	text, cut := begin(text, MaxText)
	return c.mask(text, cut)
}

// Short is Text for the beginning of a text: it shows at most most bytes, and looks at a few more, whatever the text's length
// is.
func (c *Cleaner) Short(text string, most int) string {
	text, cut := begin(text, most+beyond)
	text = c.mask(text, cut)
	if len(text) <= most {
		return text
	}
	text, _ = begin(text, most-len(more))
	return text + more
}

func (c *Cleaner) mask(text string, cut bool) string {
	if c != nil {
		c.mu.RLock()
		all, learned := c.known, c.learned
		c.mu.RUnlock()
		text = without(text, cut, all, learned)
	}
	if !cut {
		return guessed(text)
	}
	// The cut may remove the "@" that distinguishes a password from a port, or a closing quote.
	return strings.TrimSuffix(guessed(text+"@"), "@") + more
}

// guessed returns a text without anything that may be a secret.
func guessed(text string) string {
	text = strings.ReplaceAll(text, "\x00", "") // no reader shows it, and Postgres takes none: what it breaks would be put together again
	return Pairs(wholes(URL(plainLetters(text))))
}

// begin returns the beginning of a text, in whole characters, and without an escape that is cut (%2, \u00).
func begin(text string, most int) (begun string, cut bool) {
	if len(text) <= most {
		return text, false
	}
	most = max(most, 0)
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	tail := max(0, most-longestSpelling)
	if at := strings.IndexAny(text[tail:most], `%\&`); at >= 0 {
		most = tail + at
	}
	return text[:most], true
}

// Text is Cleaner.Text of a cleaner that knows no secret. All that our programs log, and tell people about their connectors,
// has passed through it.
func Text(text string) string { return (*Cleaner)(nil).Text(text) }

// Short is Cleaner.Short of a cleaner that knows no secret.
func Short(text string, most int) string { return (*Cleaner)(nil).Short(text, most) }

// Error is Cleaner.Error of a cleaner that knows no secret.
func Error(err error) error { return (*Cleaner)(nil).Error(err) }

// Error returns an error whose text is clean. errors.Is and errors.As see the original error.
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
