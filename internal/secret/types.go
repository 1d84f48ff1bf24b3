package secret

// ofTypes are the fields that are secrets, by the type of the connector: what its Config says. A test of services/connector holds
// the two together.
var ofTypes = map[string][]string{
	"google_drive": {"client_secret", "refresh_token", "service_account"},
	"onedrive":     {"client_secret", "refresh_token"},
	"teams":        {"client_secret", "refresh_token"},
}

// FieldsOfType are the fields of a type's configuration that are sealed before they are stored; none of a type that is not known here.
func FieldsOfType(connectorType string) []string { return ofTypes[connectorType] }
