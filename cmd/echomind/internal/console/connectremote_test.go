package console_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/console"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/testonly/signintest"
)

// connecting is a terminal whose server may ask at the fakes of both providers.
func connecting(t *testing.T) (u away, provider *signintest.Server, ring *secret.Ring) {
	t.Helper()
	w := newTerminal(t)
	provider = w.signIn(nil)
	key, err := secret.NewKey()
	require.NoError(t, err)
	ring, err = secret.Load("", key)
	require.NoError(t, err)
	u = w.fromAway(func(c *api.Config) {
		c.Secrets = config.Secrets{SecretsKey: key}
		c.Consent = consent.Config{
			GoogleAuthURL: provider.GoogleAuthURL(), GoogleTokenURL: provider.GoogleTokenURL(), GoogleClientID: signintest.ClientID, GoogleClientSecret: signintest.ClientSecret,
			MicrosoftGraphURL: "https://graph.microsoft.com/v1.0", MicrosoftLoginURL: provider.URL, MicrosoftClientID: signintest.ClientID, MicrosoftClientSecret: signintest.ClientSecret,
		}
	})
	return u, provider, ring
}

// connectThrough runs a command through the server with a user before it.
func (u away) connectThrough(does func(string), args ...string) output {
	u.t.Helper()
	var stdout bytes.Buffer
	stderr := &visitor{does: does}
	root := console.Root()
	root.SetArgs(append([]string{"connect"}, args...))
	root.SetOut(&stdout)
	root.SetErr(stderr)
	code := console.Execute(context.Background(), root)
	for _, hidden := range []string{signintest.ClientSecret, signintest.RefreshToken, signintest.AccessToken, "nobody-shows", "enc:v1:"} {
		require.NotContains(u.t, stdout.String()+stderr.String(), hidden)
	}
	return output{stdout.String(), stderr.String(), code}
}

// inBrowser opens the address in a browser that is signed in at the page.
func (u away) inBrowser(token string) func(string) {
	return func(said string) {
		jar, err := cookiejar.New(nil)
		if err != nil {
			u.t.Error(err)
			return
		}
		client := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
		for _, ask := range []func() (*http.Response, error){
			func() (*http.Response, error) {
				return client.PostForm(u.server.URL+"/sign-in", url.Values{"token": {token}})
			},
			func() (*http.Response, error) { return client.Get(addresses.FindStringSubmatch(said)[1]) },
		} {
			answer, err := ask()
			if err != nil {
				u.t.Error(err)
				return
			}
			_ = answer.Body.Close()
		}
	}
}

func TestAnAccountIsConnectedThroughAServerByItsOwnApplication(t *testing.T) {
	u, provider, ring := connecting(t)
	provider.Web = u.server.URL + "/connect/back"
	token := u.token(7, identity.User)
	u.signedIn(token)
	out := u.connectThrough(u.inBrowser(token), "google", "--name", "plans", "--user", "7", "--config", `{"folder_id": "1a2b"}`, "--refresh", "manual")
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, "connector 1 is connected and added; `echomind connectors trigger 1 --wait` syncs it, and shows how\n", out.stdout)
	secrets, kept := u.stored(1, ring)
	require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, secrets)
	require.Equal(t, "1a2b", kept["folder_id"])
	require.NotContains(t, kept, "client_id")

	out = u.connectThrough(u.inBrowser(token), "microsoft", "--name", "drive", "--user", "7", "--tenant", "contoso.example", "--refresh", "manual", "-o", "json")
	require.Equal(t, 0, out.code, out.stderr)
	require.Regexp(t, `"type": "onedrive"`, out.stdout)
	_, kept = u.stored(2, ring)
	require.Equal(t, "contoso.example", kept["tenant_id"])

	version := u.row(`SELECT config_version::text FROM connectors WHERE id = 2`)
	u.succeed("connectors", "disable", "2")
	out = u.connectThrough(u.inBrowser(token), "microsoft", "--connector", "drive")
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, "connector 2 is connected again; it is DISABLED until `echomind connectors enable 2`\n", out.stdout)
	require.NotEqual(t, version, u.row(`SELECT config_version::text FROM connectors WHERE id = 2`))

	provider.Denies = true
	out = u.connectThrough(u.inBrowser(token), "google", "--connector", "plans")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "the consent was refused; nothing is connected")
	out = u.connectThrough(nil, "google", "--connector", "plans", "--timeout", "1s")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "nobody has consented, and nothing is connected")
	for why, args := range map[string][]string{
		"--connector 2: it is of type onedrive, and this connects google_drive": {"google", "--connector", "2"},
		"there is no connector 9":              {"google", "--connector", "9"},
		"--port: goes with an application":     {"google", "--connector", "1", "--port", "8085"},
		"--browser: goes with an application":  {"microsoft", "--connector", "2", "--browser"},
		"--tenant: goes with --client-id; the": {"microsoft", "--connector", "2", "--tenant", "contoso.example"},
	} {
		out := u.connectThrough(nil, args...)
		require.NotZero(t, out.code)
		require.Contains(t, out.stderr, why)
	}
}

func TestAnAccountIsConnectedThroughAServerByAnApplicationOfOnesOwnAsOnTheDatabase(t *testing.T) {
	u, provider, ring := connecting(t)
	u.signedIn(u.token(7, identity.User))
	client := u.clientFile()
	out := u.connectThrough(u.consents(provider), "google", "--client-file", client, "--name", "plans", "--user", "7", "--config", `{"folder_id": "1a2b"}`, "--refresh", "manual")
	require.Equal(t, output{"connector 1 is connected and added; `echomind connectors trigger 1 --wait` syncs it, and shows how\n", out.stderr, 0}, out)
	secrets, kept := u.stored(1, ring)
	require.Equal(t, map[string]string{"client_secret": signintest.ClientSecret, "refresh_token": signintest.RefreshToken}, secrets)
	require.Equal(t, []any{"1a2b", signintest.ClientID}, []any{kept["folder_id"], kept["client_id"]})
	version := u.row(`SELECT config_version::text FROM connectors`)
	out = u.connectThrough(u.consents(provider), "google", "--client-file", client, "--connector", "plans")
	require.Equal(t, 0, out.code, out.stderr)
	require.Regexp(t, regexp.MustCompile(`^connector 1 is connected again; it is \w+, and everything is fetched again\n$`), out.stdout)
	require.NotEqual(t, version, u.row(`SELECT config_version::text FROM connectors`))
	out = u.connectThrough(u.consents(provider), "microsoft", "--client-id", signintest.ClientID, "--tenant", "contoso.example", "--name", "drive", "--user", "7")
	require.Equal(t, 0, out.code, out.stderr)
	secrets, _ = u.stored(2, ring)
	require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, secrets)
	require.Equal(t, "user 7", u.row(`SELECT DISTINCT updated_by FROM connectors`))
}
