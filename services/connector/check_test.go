package connector

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/secret"
)

// robotKey is a service account's key file.
func robotKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@example.com",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	require.NoError(t, err)
	return string(file)
}

func quoted(text string) string { return strconv.Quote(text) }

// sealed is an envelope.
func sealed(t *testing.T) string {
	t.Helper()
	key, err := secret.NewKey()
	require.NoError(t, err)
	ring, err := secret.Parse(key)
	require.NoError(t, err)
	envelope, err := ring.Seal(1, "service_account", "x")
	require.NoError(t, err)
	return envelope
}

func TestAConfigurationIsCheckedBeforeAnythingRuns(t *testing.T) {
	for _, c := range []struct{ connectorType, config, problem string }{
		{"google_drive", `{"client_id":"app","refresh_token":"1//x"}`, ""},
		{"google_drive", `{"service_account":` + robotKey(t) + `,"subject":"ann@example.com"}`, ""},
		{"google_drive", `{"service_account":` + quoted(robotKey(t)) + `}`, ""},
		{"google_drive", `{"service_account":"` + sealed(t) + `","folder_id":"1a"}`, ""},
		{"google_drive", `{"service_account":{"installed":{"client_id":"app"}}}`, "service_account: it is not the key file of a service account"},
		{"google_drive", `{"service_account":"` + sealed(t) + `","refresh_token":"1//x"}`, "service_account, refresh_token: give one of them"},
		{"google_drive", `{"service_account":"` + sealed(t) + `","client_id":"app"}`, "client_id: it goes with refresh_token"},
		{"google_drive", `{"refresh_token":"1//x","subject":"ann@example.com"}`, "subject: it needs service_account"},
		{"google_drive", `{"refresh_token":"1//x","tenant_id":"contoso"}`, "tenant_id: it is a Microsoft directory"},
		{"google_drive", `{"refresh_token":"1//x","client_secret":"s"}`, "client_secret: it needs client_id"},
		{"google_drive", `{"folder_id":"1a"}`, "no credentials: give refresh_token, or service_account"},
		{"google_drive", `{"refresh_token":"1//x","folder":"1a"}`, "folder: there is no such field; there are client_id"},
		{"google_drive", `{"refresh_token":"1//x","source":"drive"}`, `source: "drive" is not known`},
		{"onedrive", `{"tenant_id":"contoso","site":"contoso.sharepoint.com:/sites/Marketing"}`, ""},
		{"onedrive", `{"refresh_token":"","folder":"x"}`, "no credentials: give refresh_token, or tenant_id with client_secret"},
		{"onedrive", `{"refresh_token":"x","client_id":"app","client_secret":"s","tenant_id":"contoso.example"}`, ""},
		{"onedrive", `{"refresh_token":"x","tenant_id":"consumers"}`, ""},
		{"onedrive", `{"refresh_token":"x","tenant_id":"contoso/x"}`, `tenant_id: "contoso/x" is not a directory's id or domain`},
		{"onedrive", `{"tenant_id":"common","user":"ann"}`, `tenant_id: "common" is no one directory`},
		{"onedrive", `{"tenant_id":"contoso","client_id":"app","user":"ann"}`, "client_secret: it is missing"},
		{"onedrive", `{"tenant_id":"contoso","client_id":"app","client_secret":"s"}`, "drive_id, site, group_id, user: one of them is missing"},
		{"onedrive", `{"refresh_token":"x","client_secret":"s"}`, "client_secret: it needs client_id"},
		{"onedrive", `{"refresh_token":"x","service_account":"s"}`, "service_account: it is Google's"},
		{"teams", `{"tenant_id":"contoso","client_id":"app","client_secret":"s","team_id":"t","channel_id":"19:c@thread.tacv2"}`, ""},
		{"teams", `{"refresh_token":"x","subject":"ann","team_id":"t","channel_id":"19:c@thread.tacv2"}`, "subject: it is Google's"},
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
