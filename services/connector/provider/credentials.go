package provider

// Credentials are the fields of a connector's configuration that name the account, for sources to embed in their Config. Sources do
// not read them: their client was made with them. The secret fields are envelopes in Postgres and on the wire (internal/secret).
type Credentials struct {
	// ClientID is the application that was given consent; the service's own, if empty.
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is the secret of that application.
	ClientSecret string `json:"client_secret,omitempty" secret:"true"`
	// RefreshToken is the refresh token of the user's consent.
	RefreshToken string `json:"refresh_token,omitempty" secret:"true"`
	// TenantID is the Microsoft directory that the account is in.
	TenantID string `json:"tenant_id,omitempty"`
	// ServiceAccount is the key of a Google service account, as its JSON file has it; instead of a refresh token.
	ServiceAccount string `json:"service_account,omitempty" secret:"true"`
	// Subject is the user that the service account acts for, by domain-wide delegation; empty for none.
	Subject string `json:"subject,omitempty"`
}
