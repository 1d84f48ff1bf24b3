package graph

import (
	"encoding/json"
)

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
