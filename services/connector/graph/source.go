package graph

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/extraction"
)

// Credentials are the fields of a connector's configuration from which the client is made. They stand here so that the strict
// decoding of a configuration knows them.
type Credentials struct {
	// TenantID is the directory the account is in.
	TenantID string `json:"tenant_id,omitempty"`
	// ClientID is the application that was given consent.
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is the secret of that application; encrypted.
	ClientSecret json.RawMessage `json:"client_secret,omitempty" secret:"true"`
	// RefreshToken is the refresh token of the user's consent; encrypted.
	RefreshToken json.RawMessage `json:"refresh_token,omitempty" secret:"true"`
}

// SyncOptions tune the sync of a source. They belong to the service, not to the connector.
type SyncOptions struct {
	// Connector is the connector's id, for messages that tell people which command to call.
	Connector int32
	// Endpoint is the base URL of Microsoft Graph; empty means DefaultEndpoint.
	Endpoint string
	// API authorises, keeps to the quota and retries. Plain downloads by pre-authenticated URL, and must not
	// authorise.
	API, Plain *http.Client
	// Extract reads content.
	Extract extraction.Extractor
	// Chunk is the size of chunks.
	Chunk chunk.Options
	// Room bounds the memory for files of several syncs together; nil means no bound.
	Room source.Room
	// Clean removes secrets from the reasons that people see; nil leaves them.
	Clean func(string) string
	// Workers is how many files are downloaded at the same time; 0 means the source's default.
	Workers int
	// HeldBytes bounds how much is held of folders that are not remembered with files; 0 means the source's default. Beyond it, folders
	// are asked for again. A channel holds none.
	HeldBytes int
	// PageSize is how many items, or threads, are asked for at once; 0 means the source's default.
	PageSize int
	// Pause is before an answer that broke off is asked for again; it doubles. 0 means none.
	Pause time.Duration
}

// Reader returns a Reader of files of up to so many bytes, with its Client.
func (o SyncOptions) Reader(maxBytes int64) (Reader, error) {
	client, err := New(Options{Endpoint: o.Endpoint, API: o.API, Plain: o.Plain, Pause: o.Pause})
	return Reader{Client: client, Extract: o.Extract, MaxBytes: maxBytes}, err
}

// Engine are the options of the engine. again is how many failed documents a sync tries again until that helps.
func (o SyncOptions) Engine(again int) source.Options {
	return source.Options{
		Connector: o.Connector, Chunk: o.Chunk, Workers: o.Workers, Room: o.Room, Reading: o.Extract.Version(), Again: again, Ends: EndsSync, Clean: o.Clean,
	}
}
