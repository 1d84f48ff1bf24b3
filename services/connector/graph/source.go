package graph

import (
	"encoding/json"
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
