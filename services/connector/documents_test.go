package connector

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/services/connector/teams"
)

func TestTheDocumentationNamesEveryFieldOfAConfiguration(t *testing.T) {
	for page, config := range map[string]any{
		"google-drive.md": googledrive.Config{}, "microsoft.md": onedrive.Config{}, "microsoft.md#teams": teams.Config{},
	} {
		name, _, _ := strings.Cut(page, "#")
		own, err := os.ReadFile("../../docs/" + name)
		require.NoError(t, err)
		shared, err := os.ReadFile("../../docs/connecting.md")
		require.NoError(t, err)
		for _, field := range fields(reflect.TypeOf(config)) {
			require.Contains(t, string(own)+string(shared), "`"+field+"`", "%s does not name %s", name, field)
		}
	}
}

// fields are the names in JSON of a struct's fields, and of those that it embeds.
func fields(of reflect.Type) (names []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		if f.Anonymous {
			names = append(names, fields(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
