package console_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/console"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/client"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

// away is a terminal of somebody who has no database, but an API, whose settings are in a folder of the test's own. No other test runs beside it.
type away struct {
	terminal
	server *httptest.Server
	file   string
	config api.Config
}

func newAway(t *testing.T) away {
	t.Helper()
	return newTerminal(t).fromAway()
}

// fromAway is the terminal of somebody who has the API of the same database alone.
func (u terminal) fromAway(more ...func(*api.Config)) away {
	t := u.t
	t.Helper()
	var cfg api.Config
	require.NoError(t, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL = u.lookup.DatabaseURL, "nats://127.0.0.1:1"
	if u.lookup.NATSURL != "" {
		cfg.NATSURL = u.lookup.NATSURL
	}
	for _, change := range more {
		change(&cfg)
	}
	pool, err := postgres.Open(t.Context(), cfg.DatabaseURL, "echomind-api", 2, postgres.As("echomind_api"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a, err := api.New(cfg, pool, connect.NewProcess(testkit.Logger(t)))
	require.NoError(t, err)
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "settings"))
	for _, name := range []string{"ECHOMIND_URL", "ECHOMIND_TOKEN"} {
		t.Setenv(name, "")
	}
	folder, err := os.UserConfigDir()
	require.NoError(t, err)
	return away{u, server, filepath.Join(folder, "echomind", "login.json"), cfg}
}

// token is one of a user's, for all scopes.
func (u away) token(user int32, role identity.Role) string {
	u.t.Helper()
	secret := identity.NewSecret()
	var id int32
	require.NoError(u.t, u.pool().QueryRow(u.t.Context(), `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by)
		VALUES ($1, $2, $3, $4, 'test') RETURNING id`, user, string(role), identity.Scopes, secret.Hash()).Scan(&id))
	return identity.Token(id, secret)
}

// fed is run with a standard input, and without the database.
func (u away) fed(in string, args ...string) output {
	u.t.Helper()
	var stdout, stderr bytes.Buffer
	root := console.RootFor(config.Lookup{DataDir: u.t.TempDir()})
	root.SetArgs(args)
	root.SetIn(strings.NewReader(in))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := console.Execute(context.Background(), root)
	return output{stdout.String(), stderr.String(), code}
}

func TestWhoHasLoggedInHasTheAPIDoWhatTheyMay(t *testing.T) {
	u := newAway(t)
	token := u.token(7, identity.User)
	out := u.fed(token+"\n", "login", u.server.URL)
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, fmt.Sprintf("user 7, user, at %s; scopes: read, operate, write, admin\n", u.server.URL), out.stdout)
	info, err := os.Stat(u.file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, out.stdout, u.fed("", "whoami").stdout)

	made := u.fed(`{"name": "docs", "type": "web", "config": {"start_urls": ["https://example.com/"]}}`, "api", "post", "/connectors", "--data", "@-", "--note", "why not")
	require.Equal(t, 0, made.code, made.stderr)
	require.Contains(t, made.stdout, `"name": "docs"`)
	require.Equal(t, "why not", u.row(`SELECT note FROM audit WHERE action = 'connectors.create'`))
	read := u.fed("", "api", "GET", "/api/v1/connectors/1", "--include")
	tag := strings.TrimSpace(strings.TrimPrefix(read.stderr, "ETag: "))
	require.NotEmpty(t, tag)
	require.Equal(t, 0, u.fed("", "api", "PATCH", "/connectors/1", "--if-match", tag, "--data", `{"name": "papers"}`).code)
	stale := u.fed("", "api", "PATCH", "/connectors/1", "--if-match", tag, "--data", `{"name": "books"}`)
	require.Equal(t, 1, stale.code)
	require.Contains(t, stale.stderr, "echomind: 412 ")
	require.Contains(t, u.fed("", "api", "DELETE", "/connectors/1").stderr, "says which version it changes. Send If-Match with")
	require.Equal(t, "papers", u.row(`SELECT name FROM connectors`))
	require.Contains(t, u.fed("", "api", "GET", "/connectors?name=PAPERS").stdout, `"id": 1`)
	require.Contains(t, u.fed("", "api", "GET", "/connectors/99").stderr, "echomind: 404 ")
	require.Empty(t, u.fed("", "api", "DELETE", "/connectors/1", "--if-match", "*").stdout)
	require.Equal(t, 0, u.fed("", "logout").code)
	require.Contains(t, u.fed("", "whoami").stderr, "not logged in to a server: `echomind login URL`")
	require.Equal(t, 0, u.fed("", "logout").code, "who is not logged in logs out, too")
}

func TestTheEnvironmentGoesBeforeALogin(t *testing.T) {
	u := newAway(t)
	require.Equal(t, 0, u.fed(u.token(7, identity.User), "login", u.server.URL).code)
	t.Setenv("ECHOMIND_URL", u.server.URL)
	require.Contains(t, u.fed("", "whoami").stderr, "ECHOMIND_URL and ECHOMIND_TOKEN: set both, or neither")
	t.Setenv("ECHOMIND_TOKEN", u.token(8, identity.Admin))
	require.Contains(t, u.fed("", "whoami", "-o", "json").stdout, `"user_id": 8`)
}

func TestALoginThatDoesNotCountIsNotKeptAndSaysWhy(t *testing.T) {
	u := newAway(t)
	token := u.token(7, identity.User)
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	t.Cleanup(other.Close)
	leads := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(leads.Close)
	floods := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for line := bytes.Repeat([]byte("x"), 1<<20); ; {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}))
	t.Cleanup(floods.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for what, s := range map[string]struct{ url, token, want string }{
		"no token":                 {u.server.URL, " \n", "no token"},
		"a wrong token":            {u.server.URL, token + "x", "echomind: 401 "},
		"two lines":                {u.server.URL, token + "\nmore", "token: must be one"},
		"no TLS":                   {"http://sync.example", token, "must begin with https://"},
		"a user":                   {"https://me:hunter2@sync.example", token, `sync.example": must be the API's`},
		"no address":               {"sync.example", token, "must be the API's"},
		"another service":          {other.URL, token, "answers 200 OK, and not as the API"},
		"one that leads elsewhere": {leads.URL, token, "answers 307"},
		"one without end":          {floods.URL, token, "more than 8388608 bytes"},
		"nobody":                   {gone.URL, token, "connection refused"},
	} {
		out := u.fed(s.token, "login", s.url)
		require.Equal(t, 1, out.code, what)
		require.Contains(t, out.stderr, s.want, what)
		require.NotContains(t, out.stderr, "hunter2", what)
		require.NotContains(t, out.stderr, strings.TrimSpace(token), what)
		require.NoFileExists(t, u.file, what)
	}
	require.Equal(t, 1, elsewhere, "whoever a server leads to is not given the token")
}

func TestALoginThatOthersMayReadIsRefused(t *testing.T) {
	u := newAway(t)
	require.Equal(t, 0, u.fed(u.token(7, identity.User), "login", u.server.URL).code)
	require.NoError(t, os.Chmod(u.file, 0o644))
	require.Contains(t, u.fed("", "whoami").stderr, "others may read it")
	require.NoError(t, os.WriteFile(u.file, []byte("{}"), 0o600))
	require.NoError(t, os.Chmod(u.file, 0o600))
	require.Contains(t, u.fed("", "whoami").stderr, "is no login: log in again")
}

func TestWhatTheAPICannotBeAskedIsAUsageError(t *testing.T) {
	u := newAway(t)
	for _, args := range [][]string{{"FETCH", "/connectors"}, {"GET", "connectors"}, {"GET"}, {"POST", "/connectors", "--data", "@/nowhere"}} {
		out := u.fed("", append([]string{"api"}, args...)...)
		require.Equal(t, 2, out.code, "%v: %s", args, out.stderr)
	}
}

func TestNobodyWaitsForAnAnswerWithoutAnEnd(t *testing.T) {
	u := newAway(t)
	u.signedIn("ems_1_x")
	for _, path := range []string{"/events", "/events?run=1", "/%65vents", "/events#x", "/x/api/v1/events"} {
		out := u.fed("", "api", "GET", path)
		require.Equal(t, 1, out.code, path)
		require.Contains(t, out.stderr, "must have no fragment (#), and an end, which /events has not", path)
	}
}

// The client's error is the API's answer, with the time after which it may be asked again.
func TestTheClientTellsTheAPIsAnswersApart(t *testing.T) {
	u := newAway(t)
	mine, err := client.New(u.server.URL+"/", u.token(7, identity.User))
	require.NoError(t, err)
	page, err := mine.ConnectorsListWithResponse(t.Context(), &client.ConnectorsListParams{})
	require.NoError(t, err)
	require.Empty(t, page.JSON200.Connectors)
	_, err = mine.ConnectorsGetWithResponse(t.Context(), 4, nil)
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusNotFound, refused.Status)
	require.Equal(t, "urn:echomind:problem:not-found", refused.Problem.Type)
	require.EqualError(t, err, "404 Not found: There is no connector 4 that you may see.")
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"type":"urn:echomind:problem:too-many","title":"Too many requests","status":429}`))
	}))
	t.Cleanup(busy.Close)
	theirs, err := client.New(busy.URL, "ems_1_x")
	require.NoError(t, err)
	_, err = theirs.MeWithResponse(t.Context())
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 7*time.Second, refused.RetryAfter)
	require.EqualError(t, err, "429 Too many requests")
}
