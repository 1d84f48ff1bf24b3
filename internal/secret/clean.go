package secret

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Mask stands where a secret was.
const Mask = "REDACTED"

const (
	// shortest is how long a secret must be to be looked for in texts: a shorter one is in every other word.
	shortest = 6
	// MaxText is how much of a text is shown at most.
	MaxText = 64 << 10
	// maxLearned is how many secrets a cleaner keeps of those that it learns: a run has one access token at a time, and a
	// text may hold the one before.
	maxLearned = 8
	// more stands where a text goes on.
	more = "…"
	// beyond is how much of a text is looked at behind what is shown of it: a password is known by the "@" behind it.
	beyond = 1 << 10
)

// Cleaner takes secrets out of texts. A nil one knows none, and still takes out what may be one. It is safe for concurrent
// use.
type Cleaner struct {
	mu             sync.RWMutex
	known, learned []known
}

// NewCleaner knows these secrets, as they are and as they are written in URLs, in JSON, in HTML and in Go's quotes.
func NewCleaner(secrets ...string) *Cleaner {
	c := &Cleaner{}
	for _, s := range secrets {
		if len(s) >= shortest {
			c.known = append(c.known, newKnown(s))
		}
	}
	return c
}

// Learn has a cleaner know a secret that came later, such as an access token. It keeps the last ones. A nil cleaner
// learns nothing.
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
	// A new list: a reader may hold the old one.
	c.learned = append(slices.Clone(c.learned[max(0, len(c.learned)-maxLearned+1):]), newKnown(secret))
}

// Text is a text without the secrets, without the queries and users of URLs, without what follows Bearer, without private
// keys, and without the values of pairs such as password=…. It is at most MaxText of it, and a little.
func (c *Cleaner) Text(text string) string {
	text, cut := begin(text, MaxText)
	return c.mask(text, cut)
}

// Short is Text of the first bytes of a text, of which at most most are shown. It looks at a few more, whatever the text's
// length is.
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
	// What is cut off may be the "@" that tells a password from a port, or a closing quote.
	return strings.TrimSuffix(guessed(text+"@"), "@") + more
}

// guessed is a text without what may be a secret.
func guessed(text string) string { return Pairs(wholes(URL(plainLetters(text)))) }

// begin is the beginning of a text, of whole characters, and without one whose spelling is cut (%2, \u00).
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

// Text is Cleaner.Text of a cleaner that knows no secret. What a program of ours logs, and what it tells people about
// their connectors, has passed through it.
func Text(text string) string { return (*Cleaner)(nil).Text(text) }

// Short is Cleaner.Short of a cleaner that knows no secret.
func Short(text string, most int) string { return (*Cleaner)(nil).Short(text, most) }

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
