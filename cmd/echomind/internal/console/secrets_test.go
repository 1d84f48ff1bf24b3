package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

const refreshToken = "1//0g-refresh-token-of-alice"

// key makes a key as a user does.
func (u terminal) key() string {
	u.t.Helper()
	return strings.TrimSpace(u.succeed("secrets", "key"))
}

// keys puts keys into the environment, by way of a file.
func (u terminal) keys(keys ...string) *secret.Ring {
	u.t.Helper()
	file := filepath.Join(u.t.TempDir(), "secrets.key")
	require.NoError(u.t, os.WriteFile(file, []byte(strings.Join(keys, "\n")), 0o600))
	u.t.Setenv("SECRETS_KEY_FILE", file)
	ring, err := secret.Load(file, "")
	require.NoError(u.t, err)
	return ring
}

// row is one value of the database as text.
func (u terminal) row(sql string, args ...any) (text string) {
	u.t.Helper()
	require.NoError(u.t, testkit.Sessions(u.t, u.lookup.DatabaseURL).QueryRow(u.t.Context(), sql, args...).Scan(&text))
	return text
}

func (u terminal) drive(config string) string {
	u.t.Helper()
	return strings.TrimSpace(u.succeed("connectors", "add", "--name", "drive", "--type", "onedrive", "--user", "1", "--refresh", "1h",
		"--no-config-check", "--config", config))
}

func TestSecretsAreSealedBeforeTheyAreStoredAndNeverShown(t *testing.T) {
	u := newTerminal(t)
	ring := u.keys(u.key())
	id := u.drive(`{"client_id":"app","refresh_token":"` + refreshToken + `","folder":"a<b"}`)
	require.Equal(t, "1", id)
	stored := u.row(`SELECT config::text FROM connectors WHERE id = 1`)
	require.NotContains(t, stored, refreshToken)
	require.Contains(t, stored, `"folder": "a<b"`)
	opened, err := ring.OpenConfig(1, []string{"refresh_token"}, []byte(stored))
	require.NoError(t, err)
	require.Equal(t, refreshToken, opened["refresh_token"])

	second := u.drive(`{"client_id":"app","refresh_token":"` + refreshToken + `"}`)
	require.Equal(t, "2", second, "numbers go on as before")
	update := u.run("connectors", "update", "2", "--config", stored)
	require.Equal(t, 1, update.code)
	require.Contains(t, update.stderr, "another connector's", "an envelope cannot be taken from connector 1")
	u.succeed("connectors", "update", "1", "--config", stored, "--name", "still mine")
	require.Equal(t, stored, u.row(`SELECT config::text FROM connectors WHERE id = 1`))
	u.succeed("connectors", "update", "2", "--config", `{"tenant_id":"contoso","client_id":"app","client_secret":"hunter-two","user":"ann@contoso.example"}`)
	require.Contains(t, u.row(`SELECT config::text FROM connectors WHERE id = 2`), `"client_secret": "enc:v1:`)

	for _, command := range []string{"connectors get 1", "connectors get 1 -o json", "connectors list -o json", "runs 1", "why 1"} {
		shown := u.succeed(strings.Fields(command)...)
		require.NotContains(t, shown, refreshToken, command)
		require.NotContains(t, shown, "enc:v1:", command)
	}
}

func TestWithoutAKeyAConnectorWithSecretsIsRefusedAndOthersAreNot(t *testing.T) {
	u := newTerminal(t)
	t.Setenv("SECRETS_KEY_FILE", "")
	t.Setenv("SECRETS_KEY", "")
	out := u.run("connectors", "add", "--name", "d", "--type", "onedrive", "--user", "1", "--config", `{"refresh_token":"`+refreshToken+`"}`)
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "SECRETS_KEY_FILE")
	require.NotContains(t, out.stderr, refreshToken)
	u.succeed("connectors", "add", "--name", "d", "--type", "onedrive", "--user", "1", "--config", `{"tenant_id":"contoso","site":"contoso.sharepoint.com"}`)
	out = u.run("secrets", "rotate")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "echomind secrets key")
	t.Setenv("SECRETS_KEY", "short")
	require.Contains(t, u.run("secrets", "rotate").stderr, "32 bytes")
}

func TestTheKeyInTheDataFolderIsFoundWhereTheStackIs(t *testing.T) {
	u := newTerminal(t)
	t.Setenv("SECRETS_KEY_FILE", "")
	t.Setenv("SECRETS_KEY", "")
	require.NoError(t, secret.MakeFile(secret.FileIn(u.lookup.DataDir)))
	out := u.run("secrets", "rotate")
	require.Contains(t, out.stderr, "no key", "this database is another's")
	u.lookup.DatabaseURL = ""
	out = u.run("secrets", "rotate")
	require.NotContains(t, out.stderr, "no key")
}

func TestRotationSealsEverythingAnewAndDisturbsNothing(t *testing.T) {
	u := newTerminal(t)
	oldKey := u.key()
	old := u.keys(oldKey)
	const connectors = 450 // three pages
	u.drive(`{"client_id":"app","refresh_token":"` + refreshToken + `","nested":{"n":1.50}}`)
	for id := int32(2); id <= connectors; id++ {
		config, err := old.SealConfig(id, []string{"refresh_token"}, []byte(`{"refresh_token":"`+refreshToken+`"}`))
		require.NoError(t, err)
		if id%50 == 0 {
			u.exec(`INSERT INTO connectors (id, name, type, user_id) VALUES ($1, 'web', 'web', 1)`, id)
		} else {
			u.exec(`INSERT INTO connectors (id, name, type, user_id, config) VALUES ($1, 'drive', 'onedrive', 1, $2)`, id, config)
		}
	}
	rotated, err := old.Seal(1, "rotated.refresh_token", "another")
	require.NoError(t, err)
	u.exec(`INSERT INTO connector_secrets (connector_id, name, envelope) VALUES (1, 'rotated.refresh_token', $1)`, rotated)
	// Connector 1 is in flight.
	movestest.Syncing(t, u.pool(), 1)
	const rest = `SELECT string_agg((to_jsonb(c) - 'config')::text || (c.config - 'refresh_token')::text, E'\n' ORDER BY id) FROM connectors c`
	before := u.row(rest)

	newKey := u.key()
	ring := u.keys(newKey, oldKey)
	first := u.object("secrets", "rotate")
	require.Equal(t, ring.Current(), first["key"])
	require.EqualValues(t, connectors-9+1, first["envelopes"])
	require.EqualValues(t, connectors-9, first["connectors"])
	require.EqualValues(t, 1, first["rotated_tokens"])
	require.Equal(t, before, u.row(rest), "no version, no state, no status, no due time")
	require.Equal(t, "running", u.row(`SELECT status FROM scheduler_runs`))
	second := u.object("secrets", "rotate")
	require.EqualValues(t, 0, second["envelopes"])
	require.EqualValues(t, connectors-9+1, second["current"])

	alone := u.keys(newKey)
	for _, id := range []int32{1, 2, 449} {
		opened, err := alone.OpenConfig(id, []string{"refresh_token"}, []byte(u.row(`SELECT config::text FROM connectors WHERE id = $1`, id)))
		require.NoError(t, err)
		require.Equal(t, refreshToken, opened["refresh_token"])
	}
	text, err := alone.Open(1, "rotated.refresh_token", u.row(`SELECT envelope FROM connector_secrets`))
	require.NoError(t, err)
	require.Equal(t, "another", text)
	require.Contains(t, u.succeed("secrets", "rotate"), "sealed 0 envelopes anew")
}

func TestWhatRotationCannotOpenIsReportedAndStays(t *testing.T) {
	u := newTerminal(t)
	u.keys(u.key())
	u.drive(`{"client_id":"app","refresh_token":"` + refreshToken + `"}`)
	u.keys(u.key())
	u.drive(`{"client_id":"app","refresh_token":"` + refreshToken + `"}`)
	before := u.row(`SELECT config::text FROM connectors WHERE id = 1`)
	out := u.run("secrets", "rotate", "-o", "json")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "connector 1: refresh_token: sealed with a key that is not among")
	var done map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &done))
	require.EqualValues(t, 1, done["current"])
	require.Equal(t, before, u.row(`SELECT config::text FROM connectors WHERE id = 1`))
}

func TestAConfigurationIsReadFromAFile(t *testing.T) {
	u := newTerminal(t)
	u.keys(u.key())
	file := filepath.Join(t.TempDir(), "drive.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"client_id":"app","refresh_token":"`+refreshToken+`"}`), 0o600))
	u.succeed("connectors", "add", "--name", "drive", "--type", "google_drive", "--user", "1", "--config", "@"+file)
	require.Contains(t, u.row(`SELECT config::text FROM connectors WHERE id = 1`), `"refresh_token": "enc:v1:`)
}
