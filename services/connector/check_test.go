package connector

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAConfigurationIsCheckedBeforeAnythingRuns(t *testing.T) {
	for _, c := range []struct{ connectorType, config, problem string }{
		{"google_drive", `{"client_id":"app","refresh_token":"1//x"}`, ""},
		{"google_drive", `{"service_account":{"client_email":"robot@example.com"},"subject":"ann@example.com"}`, ""},
		{"google_drive", `{"service_account":"enc:v1:sealed","folder_id":"1a"}`, ""},
		{"google_drive", `{"folder_id":"1a"}`, "no credentials: give refresh_token, or service_account"},
		{"google_drive", `{"refresh_token":"1//x","folder":"1a"}`, "folder: there is no such field; there are client_id"},
		{"google_drive", `{"refresh_token":"1//x","source":"drive"}`, `source: "drive" is not known`},
		{"onedrive", `{"tenant_id":"contoso","site":"contoso.sharepoint.com:/sites/Marketing"}`, ""},
		{"onedrive", `{"refresh_token":"","folder":"x"}`, "no credentials: give refresh_token, or tenant_id with client_secret"},
		{"onedrive", `{"refresh_token":"x","max_files":"many"}`, "max_files: it is a JSON string; write a whole number"},
		{"teams", `{"refresh_token":"x","team_id":"t"}`, "channel_id: it is missing"},
		{"web", `{"anything":1}`, ""},
	} {
		err := CheckConfig(c.connectorType, []byte(c.config))
		if c.problem == "" {
			require.NoError(t, err, c.config)
		} else {
			require.ErrorContains(t, err, c.problem, c.config)
		}
	}
}
