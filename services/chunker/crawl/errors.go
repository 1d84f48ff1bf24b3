package crawl

import (
	"errors"
	"net/http"

	"github.com/echomind/sync/internal/guard"
)

// kind is what a page without content means for its document.
type kind int

const (
	// gone: the page says that it is gone.
	gone kind = iota + 1
	// unanswered: the page may work later.
	unanswered
	// refused: the page answered, but not with a document.
	refused
	// unreadable: the page has content that cannot be read.
	unreadable
	// outOfScope: the page leads out of the scope of this crawl.
	outOfScope
	// disallowed: robots.txt forbids the page.
	disallowed
)

// failure is why a page gave no content.
type failure struct {
	kind kind
	// url is the URL that failed: after redirects, not always the requested URL.
	url string
	// down says that the site as a whole may have stopped answering.
	down bool
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// permanent tells whether another try of the first crawl of a site is useless, because of this failure of its start page.
func (f *failure) permanent() bool {
	return f.kind != unanswered || errors.Is(f.err, guard.ErrBlocked)
}

// kindOf classifies a response without content by its status code (RFC 9110).
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
