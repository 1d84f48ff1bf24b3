package config

// Secrets are the keys for the secrets in connectors' configurations. A program with neither can neither read nor write a
// secret.
type Secrets struct {
	// SecretsKeyFile is a file with the keys, one a line, as `echomind secrets key` prints them. New secrets are sealed with
	// the first; each of them opens secrets.
	SecretsKeyFile string `env:"SECRETS_KEY_FILE"`
	// SecretsKey has the keys themselves, separated by commas, where there is no file.
	SecretsKey string `env:"SECRETS_KEY"`
}
