package provider

import (
	"fmt"
	"strings"
	"time"
)

// Error is an answer about the account: its quota, or its consent. It is final: waits that could be waited for are over.
type Error struct {
	// Provider names the server that answered.
	Provider string
	// Status is the HTTP status; 0 where no request was made, because the account must wait.
	Status int
	// Reason is the provider's own word, such as userRateLimitExceeded or invalid_grant; it may be empty.
	Reason string
	// Message says what is wrong, and what to do about it, in one line.
	Message string
	// RetryAfter is how long the provider asked to wait; 0 where it did not say.
	RetryAfter time.Duration
	// Wait is how long the account must wait: RetryAfter, or a usual time where the provider did not say. 0 for an answer that
	// waiting does not mend.
	Wait time.Duration
	// WaitReason says in a few words who asks for the wait, without how long; empty without Wait.
	WaitReason string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	switch {
	case e.Status != 0:
		fmt.Fprintf(&b, " answered %d", e.Status)
		if e.Reason != "" {
			b.WriteString(" " + e.Reason)
		}
	case e.Reason != "":
		b.WriteString(": " + e.Reason)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; it asks to wait %s", e.RetryAfter.Round(time.Second))
	}
	return b.String()
}

// EndsSync tells sources that this error is not about one document. They need not import this package.
func (e *Error) EndsSync() bool { return true }

// accountError marks an error that would be the same for every request of the account: no token, no place in the quota, no more
// time to wait.
type accountError struct{ error }

func (a accountError) Unwrap() error { return a.error }

// EndsSync is as of Error.
func (a accountError) EndsSync() bool { return true }

// maxText bounds how much of a provider's text an error repeats.
const maxText = 300

// clipLine is the first line of a provider's text, bounded, without control characters.
func clipLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return strings.TrimSpace(text)
}
