package graph

import (
	"context"
	"encoding/json"

	"github.com/echomind/sync/sdk/chunk"
)

// Text is what can be read in a document.
type Text struct {
	// MediaType is what the content turned out to be.
	MediaType string
	// Sections are in reading order.
	Sections []chunk.Section
	// Hash tells whether two texts differ.
	Hash string
}

// Extractor turns content into text.
type Extractor interface {
	// Extract reads content. An error that OfContent knows is the content's own: it will not go away until the
	// content, or Version, changes. Any other is trouble of ours, and the content is read again.
	Extract(ctx context.Context, content []byte, name, mediaType string) (Text, error)
	// OfContent tells whether an error of Extract is the content's own.
	OfContent(err error) bool
	// Version changes whenever a document that could not be read before may be readable now. Letters and digits.
	Version() string
}

// Credentials are the fields of a connector's configuration that whoever makes the client reads. They stand here so
// that the strict decoding of a configuration knows them.
type Credentials struct {
	// TenantID is the directory the account is in.
	TenantID string `json:"tenant_id,omitempty"`
	// ClientID is the application that was given consent.
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is that application's; encrypted.
	ClientSecret json.RawMessage `json:"client_secret,omitempty" secret:"true"`
	// RefreshToken is what the user's consent left; encrypted.
	RefreshToken json.RawMessage `json:"refresh_token,omitempty" secret:"true"`
}
