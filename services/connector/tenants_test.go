package connector_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector"
)

// ownApplication gives the service an application of its own, as an operator does.
func ownApplication(allow string) func(*connector.Config) {
	return func(cfg *connector.Config) {
		cfg.MicrosoftClientID, cfg.MicrosoftClientSecret, cfg.MicrosoftAllow = "the-services-application", "the-services-client-secret", allow
		cfg.GoogleClientID, cfg.GoogleClientSecret = "the-services-google-application", "the-services-google-secret"
	}
}

func TestTheServicesOwnApplicationAsksNobodyWhomTheOperatorDoesNotList(t *testing.T) {
	t.Parallel()
	const listed = `contoso.example/drive:b!ours contoso.example/user:ann@contoso.example fabrikam.example/*
		contoso.example/group:g-1 contoso.example/site:contoso.example:/sites/Marketing`
	for name, c := range map[string]struct{ allow, kind, config, says string }{
		"nothing is listed by default": {"", "onedrive", `{"tenant_id":"victim.example","drive_id":"b!theirs"}`,
			`tenant_id: "victim.example" with drive_id "b!theirs" is not for this service's own application`},
		"a foreign tenant":                       {listed, "onedrive", `{"tenant_id":"victim.example","drive_id":"b!ours"}`, "victim.example/drive:b!ours to CONNECTOR_MICROSOFT_ALLOW"},
		"another drive of a listed tenant":       {listed, "onedrive", `{"tenant_id":"contoso.example","drive_id":"b!theirs"}`, "contoso.example/drive:b!theirs"},
		"another user":                           {listed, "onedrive", `{"tenant_id":"contoso.example","user":"bob@contoso.example"}`, "contoso.example/user:bob@contoso.example"},
		"a group that is listed as a user":       {listed, "onedrive", `{"tenant_id":"contoso.example","group_id":"ann@contoso.example"}`, "contoso.example/group:ann@contoso.example"},
		"another site":                           {listed, "onedrive", `{"tenant_id":"contoso.example","site":"contoso.example:/sites/Board"}`, "contoso.example/site:contoso.example:/sites/Board"},
		"a site that begins like a listed one":   {listed, "onedrive", `{"tenant_id":"contoso.example","site":"contoso.example:/sites/Marketing/../Board"}`, "site"},
		"nothing named":                          {listed, "onedrive", `{"tenant_id":"contoso.example"}`, "drive_id"},
		"another team":                           {listed, "teams", `{"tenant_id":"contoso.example","team_id":"g-2","channel_id":"c"}`, "contoso.example/group:g-2"},
		"a secret of the user's, no application": {listed, "onedrive", `{"tenant_id":"victim.example","client_secret":"SEALED","drive_id":"b!theirs"}`, "CONNECTOR_MICROSOFT_ALLOW"},
		"Google's application, without consent":  {listed, "google_drive", `{"drive_id":"0Atheirs"}`, "no credentials"},
		"Google's application, for a subject":    {listed, "google_drive", `{"subject":"victim@example.com"}`, "subject: it needs service_account"},
		"a subject beside a user's consent":      {listed, "google_drive", `{"subject":"victim@example.com","refresh_token":"SEALED"}`, "subject: it needs service_account"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true, ownApplication(c.allow))
			sealed := map[string]string{}
			for _, field := range connector.SecretFields(c.kind) {
				envelope, err := w.ring.Seal(7, field, "a-secret-of-the-authors-own")
				require.NoError(t, err)
				sealed[field] = envelope
			}
			config := c.config
			for field, envelope := range sealed {
				config = strings.ReplaceAll(config, `"`+field+`":"SEALED"`, `"`+field+`":"`+envelope+`"`)
			}
			w.exec(`INSERT INTO connectors (id, name, type, user_id, config) VALUES (7, 'deputy', $1, 1, $2)`, c.kind, config)
			message, permanent := w.failed(w.claim(7))
			require.Contains(t, message, c.says)
			require.True(t, permanent)
			require.Empty(t, w.login.asked(), "the service's secret stays here")
			require.Empty(t, w.graph.Requests())
			require.Empty(t, w.drive.requests())
			require.NotContains(t, message, "the-services")
		})
	}
}

func TestTheServicesOwnApplicationReadsWhatTheOperatorLists(t *testing.T) {
	t.Parallel()
	for _, allow := range []string{"contoso.example/drive:DRIVE", "fabrikam.example/*  contoso.example/*"} {
		t.Run(allow, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true, func(cfg *connector.Config) { ownApplication(strings.ReplaceAll(allow, "DRIVE", "drive!101"))(cfg) })
			drive, root := w.graph.NewDrive("ours", "")
			require.Equal(t, "drive!101", drive)
			w.graph.File(root, "plan.md", "# Plan")
			w.insert(7, `{"tenant_id":"contoso.example","drive_id":"drive!101"}`)
			w.fetched(w.claim(7))
			require.Len(t, w.login.asked(), 1)
			require.NotEmpty(t, w.graph.Requests())
		})
	}
}

func TestASelfMadeKeyFileDoesNotShareTheQuotaOfTheAccountItNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	for id := int32(1); id <= 2; id++ { // the account's own key, and one that somebody has made under its name
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		file, err := json.Marshal(map[string]string{
			"type": "service_account", "client_email": "robot@project.example", "private_key_id": "the-same",
			"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		})
		require.NoError(t, err)
		config, err := w.ring.SealConfig(id, connector.SecretFields("google_drive"), []byte(`{"service_account":`+string(file)+`}`))
		require.NoError(t, err)
		w.exec(`INSERT INTO connectors (id, name, type, user_id, config) VALUES ($1, 'drive', 'google_drive', $1, $2)`, id, config)
	}
	for id := int32(1); id <= 2; id++ {
		w.postponed(id, "Google Drive allows this account no more requests for now; we wait", 30*time.Minute)
		require.Len(t, w.drive.requests(), int(id), "each asks by itself: nobody's empty quota is another's")
	}
	require.Equal(t, "2", w.text(`SELECT count(*)::text FROM provider_quotas`))
}

func TestAMadeUpSecretDoesNotShareTheQuotaOfTheApplicationItNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.login.set(func() { w.login.error = "invalid_client" })
	for i, made := range []string{"the-right-secret", "a-made-up-secret"} {
		id := int32(i + 1)
		config, err := w.ring.SealConfig(id, connector.SecretFields("onedrive"),
			[]byte(`{"client_id":"app","tenant_id":"contoso.example","drive_id":"d","client_secret":"`+made+`"}`))
		require.NoError(t, err)
		w.insert(id, string(config))
		w.failed(w.claim(id))
	}
	require.Equal(t, "2", w.text(`SELECT count(*)::text FROM provider_quotas`))
}
