package answer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrGrown says that content is larger than there is room for by what was listed.
var ErrGrown = errors.New("it has grown since it was listed")

// rewriteSlack is how much content may have beside a quarter more than listed: SharePoint adds properties to Office files.
const rewriteSlack = 256 << 10

// Bound is how much is read of content that is listed with so many bytes, of which at most most are read.
func Bound(listed, most int64) int64 {
	if listed >= most {
		return most
	}
	return min(most, listed+listed/4+rewriteSlack)
}

// Grown is an ErrGrown that says by how much.
func Grown(size, listed int64) error {
	return fmt.Errorf("%w: %d bytes or more, listed were %d; it is read by a later sync", ErrGrown, size, listed)
}

// Content reads the content that a download brings. It returns none of more than bound bytes, but how many there are as
// far as is known; and what came before an error.
func Content(resp *http.Response, bound int64) (content []byte, size int64, err error) {
	if resp.ContentLength > bound {
		return nil, resp.ContentLength, nil
	}
	var b bytes.Buffer
	b.Grow(int(max(resp.ContentLength, 0)) + bytes.MinRead)
	size, err = b.ReadFrom(io.LimitReader(resp.Body, bound+1))
	if size > bound {
		return nil, size, nil
	}
	return b.Bytes(), size, err
}
