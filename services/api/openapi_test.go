//go:build !race

package api_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

func TestTheDocumentIsCurrentAndHasEveryOperation(t *testing.T) {
	written, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	made, err := api.OpenAPI()
	require.NoError(t, err)
	require.JSONEq(t, string(made), string(written), "run make generate")
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Description string
			Security    []map[string][]string
			Parameters  []struct {
				Name   string
				Schema struct {
					Type    string
					Maximum *int64
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(made, &document))
	require.True(t, strings.HasPrefix(document.OpenAPI, "3.1"))
	var found []identity.Operation
	for path, methods := range document.Paths {
		for method, operation := range methods {
			found = append(found, identity.Operation(operation.OperationID))
			require.NotEmpty(t, operation.Security, "%s %s", method, path)
			for _, p := range operation.Parameters {
				if p.Schema.Type == "integer" {
					require.NotNil(t, p.Schema.Maximum, "%s %s: %s", method, path, p.Name)
					require.LessOrEqual(t, *p.Schema.Maximum, int64(math.MaxInt32), "%s %s: %s", method, path, p.Name)
				}
			}
		}
	}
	slices.Sort(found)
	require.Equal(t, identity.Operations(), found)
}
