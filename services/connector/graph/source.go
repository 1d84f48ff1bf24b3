package graph

import (
	"context"
	"encoding/json"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

// Sink takes what a sync finds; *worker.Run is one. It must be safe for concurrent use. An error of any method ends
// the sync and is returned as it is.
type Sink interface {
	// Known returns what is stored of the connector's documents, by source id.
	Known(ctx context.Context) (map[string]worker.Known, error)
	// Put stores a document that is new, has changed, or has failed in a new way.
	Put(ctx context.Context, doc worker.Document) error
	// Touch stores a new title, URL and token for a document whose content is the same.
	Touch(ctx context.Context, doc worker.Document) error
	// Delete removes a document that is gone.
	Delete(ctx context.Context, sourceID string) error
	// Unchanged counts documents that need nothing.
	Unchanged(n int)
	// State decodes the state of the last completed sync, or of the last checkpoint.
	State(v any) error
	// SetState is the state once this sync has completed.
	SetState(v any) error
	// Checkpoint commits a state as soon as everything sent before it is stored, while the sync goes on.
	Checkpoint(ctx context.Context, state any) error
	// BeginListing begins a listing of everything: what it shows is marked, for the sync that goes on with it.
	BeginListing()
	// Seen marks documents that the listing has shown and that stand as they are stored.
	Seen(ctx context.Context, sourceIDs ...string) error
	// EndListing ends it.
	EndListing()
}

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
