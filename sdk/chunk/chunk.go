// Package chunk cuts text into pieces that are small enough to embed and still make sense alone.
package chunk

// Chunk is one piece of a document.
type Chunk struct {
	// Text is valid UTF-8 without NUL bytes.
	Text string
	// HeadingPath names the headings the piece stands under, outermost first.
	HeadingPath []string
	// Start and End are the byte offsets of the piece in the document's extracted text.
	Start, End int64
}
