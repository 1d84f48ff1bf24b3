package provider

// Credentials are the fields of a connector's configuration that say who asks, for sources to embed in their Config.
// Sources do not read them: the client that they are given was made with them. The secret ones are envelopes in
// Postgres and on the wire (internal/secret).
type Credentials struct {
	// ClientID is the application that was given consent; the service's own, if empty.
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is that application's.
	ClientSecret string `json:"client_secret,omitempty" secret:"true"`
	// RefreshToken is what the user's consent left.
	RefreshToken string `json:"refresh_token,omitempty" secret:"true"`
	// TenantID is the Microsoft directory that the account is in.
	TenantID string `json:"tenant_id,omitempty"`
	// ServiceAccount is the key of a Google service account, as its JSON file has it; instead of a refresh token.
	ServiceAccount string `json:"service_account,omitempty" secret:"true"`
	// Subject is the user whom the service account acts for, by domain-wide delegation; none if empty.
	Subject string `json:"subject,omitempty"`
}
