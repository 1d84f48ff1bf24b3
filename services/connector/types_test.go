package connector

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/secret"
)

// services/api seals configurations, too, and knows no source.
func TestTheSecretFieldsOfTypesAreThoseThatTheirConfigsSay(t *testing.T) {
	for name, fields := range secretFields {
		require.Equal(t, fields, secret.FieldsOfType(name), name)
	}
}
