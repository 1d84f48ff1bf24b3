package config

// Secrets are the keys for the secrets in connectors' configurations. Who has neither cannot read or write any.
type Secrets struct {
	// SecretsKeyFile is a file with the keys, one a line, as `echomind secrets key` prints them. The first seals, all
	// open.
	SecretsKeyFile string `env:"SECRETS_KEY_FILE"`
	// SecretsKey is the keys themselves, separated by commas, where there is no file.
	SecretsKey string `env:"SECRETS_KEY"`
}
