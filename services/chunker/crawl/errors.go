package crawl

import (
	"errors"
	"net/http"

	"github.com/echomind/sync/internal/guard"
)

// kind is what a page that gave no content means for its document.
type kind int

const (
	// gone: the page says that it is no more.
	gone kind = iota + 1
	// unanswered: the page may work later.
	unanswered
	// refused: the page answered, but with nothing that could be a document.
	refused
	// unreadable: the page's content came, and cannot be used.
	unreadable
	// outside: the page leads out of what this crawl covers.
	outside
	// disallowed: robots.txt forbids the page.
	disallowed
)

// failure is why a page gave no content.
type failure struct {
	kind kind
	// url is where it went wrong: after redirects, not always the URL that was asked for.
	url string
	// down says that the site as a whole may have stopped answering.
	down bool
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// permanent tells whether the first crawl of a site, whose start page failed like this, is worth trying again.
func (f *failure) permanent() bool {
	return f.kind != unanswered || errors.Is(f.err, guard.ErrBlocked)
}

// kindOf sorts an answer without content by its status code (RFC 9110).
func kindOf(status int) kind {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return gone
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return unanswered
	default:
		return refused
	}
}
