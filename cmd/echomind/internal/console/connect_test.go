package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/console"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/testonly/signintest"
)

// visitor is a user who reads what a command says on stderr, and does what it asks for.
type visitor struct {
	bytes.Buffer
	does func(said string)
}

var (
	addresses = regexp.MustCompile(`\n  (http://\S+)\n`)
	codes     = regexp.MustCompile(`enter the code ` + signintest.UserCode)
)

func (v *visitor) Write(p []byte) (int, error) {
	n, err := v.Buffer.Write(p)
	if does := v.does; does != nil && (addresses.MatchString(v.String()) || codes.MatchString(v.String())) {
		v.does = nil
		does(v.String())
	}
	return n, err
}

// signIn is the one that the commands of this test ask.
func (u terminal) signIn(change func(*signintest.Server)) *signintest.Server {
	u.t.Helper()
	s := signintest.New()
	u.t.Cleanup(s.Close)
	if change != nil {
		change(s)
	}
	for name, value := range s.Environment() {
		u.t.Setenv(name, value)
	}
	return s
}

// consents opens the address, or enters the code.
func (u terminal) consents(s *signintest.Server) func(string) {
	return func(said string) {
		found := addresses.FindStringSubmatch(said)
		if found == nil {
			s.Enter()
			return
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}).Get(found[1])
		if err != nil {
			u.t.Errorf("open %s: %v", found[1], err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// connect runs a command with a user before it, and looks for secrets in what it says.
func (u terminal) connect(ctx context.Context, does func(string), args ...string) output {
	u.t.Helper()
	var stdout bytes.Buffer
	stderr := &visitor{does: does}
	root := console.RootFor(u.lookup)
	root.SetArgs(append([]string{"connect"}, args...))
	root.SetOut(&stdout)
	root.SetErr(stderr)
	code := console.Execute(ctx, root)
	for _, secret := range []string{signintest.ClientSecret, signintest.RefreshToken, signintest.AccessToken, "nobody-shows", "enc:v1:"} {
		require.NotContains(u.t, stdout.String()+stderr.String(), secret)
	}
	return output{stdout.String(), stderr.String(), code}
}

// clientFile is an application as Google's console gives it.
func (u terminal) clientFile() string {
	u.t.Helper()
	return u.file("client_secret.json", `{"installed":{"client_id":"`+signintest.ClientID+`","client_secret":"`+signintest.ClientSecret+`","redirect_uris":["http://localhost"]}}`)
}

func (u terminal) file(name, text string) string {
	u.t.Helper()
	path := filepath.Join(u.t.TempDir(), name)
	require.NoError(u.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// opened is what a connector's secrets are, and the rest of its configuration.
func (u terminal) stored(id int32, keys interface {
	OpenConfig(int32, []string, []byte) (map[string]string, error)
}) (secrets map[string]string, config map[string]any) {
	u.t.Helper()
	text := u.row(`SELECT config::text FROM connectors WHERE id = $1`, id)
	require.NotContains(u.t, text, signintest.RefreshToken)
	secrets, err := keys.OpenConfig(id, []string{"client_secret", "refresh_token", "service_account"}, []byte(text))
	require.NoError(u.t, err)
	require.NoError(u.t, json.Unmarshal([]byte(text), &config))
	for name := range secrets {
		delete(config, name)
	}
	return secrets, config
}

func TestAConsentToAGoogleDriveIsANewConnectorsWithEverySecretSealed(t *testing.T) {
	u := newTerminal(t)
	keys := u.keys(u.key())
	s := u.signIn(nil)
	out := u.connect(t.Context(), u.consents(s), "google", "--client-file", u.clientFile(), "--name", "drive", "--user", "1",
		"--config", `{"folder_id":"1a2b"}`, "--refresh", "24h")
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, "connector 1 is connected and added; `echomind connectors trigger 1 --wait` syncs it, and shows how\n", out.stdout)
	require.Contains(t, out.stderr, "Open this address in a browser on this machine")
	secrets, config := u.stored(1, keys)
	require.Equal(t, map[string]string{"client_secret": signintest.ClientSecret, "refresh_token": signintest.RefreshToken}, secrets)
	require.Equal(t, map[string]any{"client_id": signintest.ClientID, "folder_id": "1a2b"}, config)
	require.Equal(t, "google_drive 1440", u.row(`SELECT concat(type, ' ', refresh_freq_minutes) FROM connectors`))

	// The services' own application is not repeated in each connector.
	t.Setenv("CONNECTOR_GOOGLE_CLIENT_ID", signintest.ClientID)
	t.Setenv("CONNECTOR_GOOGLE_CLIENT_SECRET", signintest.ClientSecret)
	out = u.connect(t.Context(), u.consents(s), "google", "--name", "second", "--user", "1", "-o", "json")
	require.Equal(t, 0, out.code, out.stderr)
	var shown map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &shown), out.stdout)
	require.EqualValues(t, 2, shown["id"])
	secrets, config = u.stored(2, keys)
	require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, secrets)
	require.Empty(t, config)
}

func TestAConnectorIsConnectedAgainAndTheRestOfItStays(t *testing.T) {
	u := newTerminal(t)
	keys := u.keys(u.key())
	s := u.signIn(nil)
	u.succeed("connectors", "add", "--name", "drive", "--type", "google_drive", "--user", "1", "--refresh", "1h", "--config",
		`{"client_id":"old","client_secret":"old-secret","refresh_token":"`+refreshToken+`","folder_id":"1a2b","max_files":12345}`)
	u.succeed("connectors", "disable", "drive")
	secret := u.file("secret", signintest.ClientSecret+"\n")
	out := u.connect(t.Context(), u.consents(s), "google", "--client-id", signintest.ClientID, "--client-secret-file", secret, "--connector", "drive")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stdout, "it is DISABLED until `echomind connectors enable 1`")
	secrets, config := u.stored(1, keys)
	require.Equal(t, map[string]string{"client_secret": signintest.ClientSecret, "refresh_token": signintest.RefreshToken}, secrets)
	require.Equal(t, map[string]any{"client_id": signintest.ClientID, "folder_id": "1a2b", "max_files": 12345.0}, config)
	require.Equal(t, "60", u.row(`SELECT refresh_freq_minutes::text FROM connectors`))

	before := len(s.Requests())
	u.add("--name", "files")
	for says, args := range map[string][]string{
		"it is of type file, and this connects google_drive":               {"google", "--client-file", u.clientFile(), "--connector", "files"},
		"it is of type google_drive, and this connects onedrive and teams": {"microsoft", "--client-id", signintest.ClientID, "--connector", "1"},
		"there is no connector 7":                                          {"google", "--client-file", u.clientFile(), "--connector", "7"},
		"there is no connector \"nobody\"":                                 {"google", "--client-file", u.clientFile(), "--connector", "nobody"},
	} {
		out := u.connect(t.Context(), u.consents(s), args...)
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, says)
	}
	require.Len(t, s.Requests(), before, "nobody is asked for a consent in vain")
}

func TestCredentialsAreWrittenToAFileThatAddTakes(t *testing.T) {
	u := newTerminal(t)
	keys := u.keys(u.key())
	s := u.signIn(nil)
	file := filepath.Join(t.TempDir(), "drive.json")
	out := u.connect(t.Context(), u.consents(s), "google", "--client-file", u.clientFile(), "--file", file, "--config", `{"folder_id":"1a2b"}`)
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stdout, "echomind connectors add --name NAME --type google_drive --user N --config @"+file)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	u.succeed("connectors", "add", "--name", "drive", "--type", "google_drive", "--user", "1", "--config", "@"+file)
	secrets, config := u.stored(1, keys)
	require.Equal(t, signintest.RefreshToken, secrets["refresh_token"])
	require.Equal(t, map[string]any{"client_id": signintest.ClientID, "folder_id": "1a2b"}, config)

	before := len(s.Requests())
	out = u.connect(t.Context(), u.consents(s), "google", "--client-file", u.clientFile(), "--file", file)
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stderr, "it is there already; name another")
	require.Len(t, s.Requests(), before)
}

func TestAMicrosoftAccountIsConnectedByACodeOrInABrowser(t *testing.T) {
	u := newTerminal(t)
	keys := u.keys(u.key())
	s := u.signIn(func(s *signintest.Server) { s.Polls = []string{"authorization_pending"} })
	out := u.connect(t.Context(), u.consents(s), "microsoft", "--client-id", signintest.ClientID, "--tenant", "contoso.example",
		"--name", "drive", "--user", "1")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stderr, "Open "+s.URL+"/devicelogin in any browser, and enter the code "+signintest.UserCode)
	secrets, config := u.stored(1, keys)
	require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, secrets)
	require.Equal(t, map[string]any{"client_id": signintest.ClientID, "tenant_id": "contoso.example"}, config)
	require.Equal(t, "onedrive", u.row(`SELECT type FROM connectors`))
	require.Equal(t, "POST /contoso.example/oauth2/v2.0/devicecode", s.Requests()[0])

	t.Setenv("CONNECTOR_MICROSOFT_CLIENT_ID", signintest.ClientID)
	var address string
	out = u.connect(t.Context(), func(said string) {
		address = addresses.FindStringSubmatch(said)[1]
		u.consents(s)(said)
	}, "microsoft", "--name", "channel", "--user", "1", "--type", "teams", "--config", `{"team_id":"t","channel_id":"19:c@thread.tacv2"}`, "--browser")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, address, "scope=offline_access+https%3A%2F%2Fgraph.microsoft.com%2FChannelMessage.Read.All+https%3A%2F%2Fgraph.microsoft.com%2FFiles.Read.All")
	require.Contains(t, address, s.URL+"/common/")
	require.Contains(t, address, "redirect_uri=http%3A%2F%2Flocalhost%3A")
	secrets, config = u.stored(2, keys)
	require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, secrets)
	require.Equal(t, map[string]any{"client_id": signintest.ClientID, "team_id": "t", "channel_id": "19:c@thread.tacv2"}, config)

	// A site needs one permission more, and a connector's own directory is asked.
	u.succeed("connectors", "add", "--name", "site", "--type", "onedrive", "--user", "1", "--config",
		`{"tenant_id":"fabrikam.example","client_id":"old","client_secret":"old-secret","site":"fabrikam.sharepoint.com"}`)
	out = u.connect(t.Context(), func(said string) {
		address = addresses.FindStringSubmatch(said)[1]
		u.consents(s)(said)
	}, "microsoft", "--connector", "site", "--browser")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, address, s.URL+"/fabrikam.example/")
	require.Contains(t, address, "Sites.Read.All")
	secrets, config = u.stored(3, keys)
	require.Equal(t, map[string]string{"refresh_token": signintest.RefreshToken}, secrets, "the secret was the application's, which asks as a user now")
	require.Equal(t, "fabrikam.example", config["tenant_id"])
}

func TestAConsentThatIsNoneLeavesNothingAndSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*signintest.Server)
		args   []string
		says   string
	}{
		"refused, in a browser":   {func(s *signintest.Server) { s.Denies = true }, []string{"google"}, "Google sign-in: access_denied: the consent was refused; nothing is connected"},
		"refused, by a code":      {func(s *signintest.Server) { s.Denies = true }, []string{"microsoft"}, "Microsoft sign-in: authorization_declined: the consent was refused"},
		"expired":                 {func(s *signintest.Server) { s.Polls = []string{"expired_token"} }, []string{"microsoft"}, "expired_token: nobody signed in while the code was good"},
		"without a refresh token": {func(s *signintest.Server) { s.Forgets = true }, []string{"google"}, "left no refresh token; it gives one where access_type=offline and prompt=consent"},
		"in part":                 {func(s *signintest.Server) { s.Partial = true }, []string{"google"}, "connect again, and tick what is asked for"},
		"broken":                  {func(s *signintest.Server) { s.Broken = 500 }, []string{"google"}, "Google sign-in answered 500: no access token"},
		"no public client":        {func(s *signintest.Server) { s.Private = true }, []string{"microsoft"}, "whose registration allows public client flows"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newTerminal(t)
			u.keys(u.key())
			s := u.signIn(c.change)
			file := filepath.Join(t.TempDir(), "drive.json")
			args := slices.Concat(c.args, map[string][]string{
				"google": {"--client-file", u.clientFile()}, "microsoft": {"--client-id", signintest.ClientID},
			}[c.args[0]])
			for _, into := range [][]string{{"--file", file}, {"--name", "drive", "--user", "1"}} {
				if c.change != nil {
					c.change(s)
				}
				out := u.connect(t.Context(), u.consents(s), append(args, into...)...)
				require.Equal(t, 1, out.code, out.stderr)
				require.Contains(t, out.stderr, c.says)
				require.Empty(t, out.stdout)
			}
			require.NoFileExists(t, file)
			require.Equal(t, "0", u.row(`SELECT count(*)::text FROM connectors`))
		})
	}
}

func TestNobodyWhoConsentsEndsWithTheDeadlineOrWithCtrlC(t *testing.T) {
	u := newTerminal(t)
	u.keys(u.key())
	u.signIn(nil)
	file := filepath.Join(t.TempDir(), "drive.json")
	for _, provider := range [][]string{{"google", "--client-file", u.clientFile()}, {"microsoft", "--client-id", signintest.ClientID}} {
		ctx, stop := context.WithCancel(t.Context())
		out := u.connect(ctx, func(string) { stop() }, append(provider, "--file", file)...)
		require.Equal(t, 130, out.code)
		require.True(t, strings.HasSuffix(out.stderr, "echomind: stopped\n"), out.stderr)
		require.NoFileExists(t, file)

		out = u.connect(t.Context(), func(string) {}, append(provider, "--file", file, "--timeout", "1s")...)
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, "echomind: connect.consent: no answer within "+deadline.Of(time.Second).String()+"; nobody has consented, and nothing is connected")
		require.NoFileExists(t, file)
	}
}

func TestWhatCannotBeConnectedIsSaidBeforeAnybodyIsAsked(t *testing.T) {
	u := newTerminal(t)
	u.keys(u.key())
	s := u.signIn(nil)
	web := u.file("web.json", `{"web":{"client_id":"x","client_secret":"`+signintest.ClientSecret+`"}}`)
	robot := u.file("robot.json", `{"type":"service_account","client_email":"x"}`)
	broken := u.file("broken.json", signintest.ClientSecret)
	two := u.file("two", signintest.ClientSecret+" "+signintest.ClientSecret)
	google := []string{"google", "--client-file", u.clientFile(), "--name", "drive", "--user", "1"}
	microsoft := []string{"microsoft", "--client-id", "app", "--name", "drive", "--user", "1"}
	for says, args := range map[string][]string{
		"at least one of the flags in the group [connector file name]": {"google", "--client-file", u.clientFile()},
		"missing [user]":                                   {"google", "--client-file", u.clientFile(), "--name", "drive"},
		"none of the others can be":                        append(google, "--file", "x"),
		"--client-file: it is missing, and CONNECTOR_":     {"google", "--name", "drive", "--user", "1"},
		"--client-id: it is missing, and CONNECTOR_":       {"microsoft", "--name", "drive", "--user", "1"},
		"missing [client-secret-file]":                     {"google", "--client-id", "app", "--name", "drive", "--user", "1"},
		"must have the secret and nothing else":            {"google", "--client-id", "app", "--client-secret-file", two, "--file", "x"},
		"it is of a client of type Web application":        {"google", "--client-file", web, "--file", "x"},
		"it is a service account's key":                    {"google", "--client-file", robot, "--file", "x"},
		"it is not JSON":                                   {"google", "--client-file", broken, "--file", "x"},
		"no such file":                                     {"google", "--client-file", "/nowhere", "--file", "x"},
		"--file \"/nowhere/x\"":                            {"google", "--client-file", u.clientFile(), "--file", "/nowhere/x"},
		"--refresh: goes with --name":                      {"google", "--client-file", u.clientFile(), "--file", "x", "--refresh", "1h"},
		"--config: goes with --name":                       {"google", "--client-file", u.clientFile(), "--connector", "1", "--config", "{}"},
		"--timeout 2h0m0s: must be 1s to 1h0m0s":           append(google, "--timeout", "2h"),
		"--port 70000: must be 1 to 65535":                 append(google, "--port", "70000"),
		"--type web: Google accounts are connected for":    append(google, "--type", "web"),
		"--type web: Microsoft accounts are connected for": append(microsoft, "--type", "web"),
		"tenant_id: \"a/b\" is not a directory's id":       append(microsoft, "--tenant", "a/b"),
		"folder: there is no such field":                   append(google, "--config", `{"folder":"x"}`),
		"team_id: it is missing":                           append(microsoft, "--type", "teams"),
		"--scope-id \"x\": goes with --scope group":        append(google, "--scope-id", "x"),
		"--time-zone: needs --cron":                        append(google, "--time-zone", "Europe/Berlin"),
	} {
		out := u.connect(t.Context(), u.consents(s), args...)
		require.Equal(t, 2, out.code, "%s: %s", says, out.stderr)
		require.Contains(t, out.stderr, says)
	}
	t.Setenv("SECRETS_KEY_FILE", "")
	t.Setenv("SECRETS_KEY", "")
	out := u.connect(t.Context(), u.consents(s), google...)
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "SECRETS_KEY_FILE")
	require.Empty(t, s.Requests())
	require.NoFileExists(t, "x")
}
