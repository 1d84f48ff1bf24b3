// Package extraction is the interface by which the remote sources extract text.
package extraction

import (
	"context"

	"github.com/echomind/sync/sdk/source"
)

// Extractor turns content into text.
type Extractor interface {
	// Extract reads content. An error for which OfContent is true stays until the content, or Version, changes. After any other
	// error the content is read again.
	Extract(ctx context.Context, content []byte, name, mediaType string) (source.Content, error)
	// OfContent tells whether an error of Extract is the content's own.
	OfContent(err error) bool
	// Version changes whenever a document that could not be read before may be readable now. Letters and digits.
	Version() string
}
