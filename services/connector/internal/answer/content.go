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

// ErrOversize says that content is larger than may be read.
var ErrOversize = errors.New("file too large")

// Oversize returns an ErrOversize for a file of size bytes, where at most `most` bytes are read.
func Oversize(size, most int64) error {
	return fmt.Errorf("%w: %d bytes, at most %d are read (max_file_bytes)", ErrOversize, size, most)
}

// rewriteSlack is how much larger content may be than listed, besides a quarter: SharePoint adds properties to Office files.
const rewriteSlack = 256 << 10

// Bound is how many bytes are read of content with a listed size, where at most `most` may be read.
func Bound(listed, most int64) int64 {
	if listed >= most {
		return most
	}
	return min(most, listed+listed/4+rewriteSlack)
}

// Grown returns an ErrGrown with both sizes.
func Grown(size, listed int64) error {
	return fmt.Errorf("%w: %d bytes or more, listed were %d; it is read by a later sync", ErrGrown, size, listed)
}

// Content reads the content of a download. Where it is larger than bound it returns no content, and the size as far as it is known.
// Beside an error it returns what came before.
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
