// Package chunk cuts text into pieces that are small enough to embed and still make sense alone.
package chunk

import "unsafe"

// Chunk is one piece of a document.
type Chunk struct {
	// Text is valid UTF-8 without NUL bytes.
	Text string
	// HeadingPath are the headings above the piece, outermost first.
	HeadingPath []string
	// Start and End are the byte offsets of the piece in the document's extracted text.
	Start, End int64
}

// Bytes is how much memory chunks take.
func Bytes(chunks []Chunk) (bytes int64) {
	for _, c := range chunks {
		bytes += int64(unsafe.Sizeof(c)) + int64(len(c.Text))
	}
	return bytes
}
