package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// ample is how many seconds a request may take that is to be answered, however busy the machine is.
const ample = 120

// world is an API on a database of one test's own, in the role of the service.
type world struct {
	*testing.T
	url    string
	server *httptest.Server
	conn   *pgx.Conn
	api    *api.API
	// uploads is the folder of uploaded files.
	uploads string
}

func newWorld(t *testing.T, change ...func(*api.Config)) *world {
	t.Helper()
	key, err := secret.NewKey()
	require.NoError(t, err)
	cfg := api.Config{
		Secrets: config.Secrets{SecretsKey: key}, Rate: 10_000, Burst: 10_000, RequestSeconds: ample, MaxConnections: 100, MaxWatchers: 100, WebhookFailingHours: 120,
		UploadSeconds: ample, UploadsAtOnce: 8, UploadMaxFiles: 100, UploadMaxMB: 64, UploadOwnerMaxMB: 64,
	}
	folder := t.TempDir()
	cfg.Uploads.URL = "file://" + folder
	cfg.DatabaseURL, cfg.NATSURL = testkit.Database(t, db.Up), "nats://127.0.0.1:1" // nobody is there
	server := httptest.NewUnstartedServer(nil)
	for _, c := range change {
		c(&cfg)
	}
	if cfg.SignIn.ClientID != "" {
		cfg.SignIn.PageURL = "http://" + server.Listener.Addr().String()
	}
	pool, err := postgres.Open(t.Context(), cfg.DatabaseURL, "echomind-api", 4, postgres.As("echomind_api"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a, err := api.New(cfg, pool, connect.NewProcess(testkit.Logger(t)))
	require.NoError(t, err)
	server.Config.Handler = a.Handler()
	server.Start()
	t.Cleanup(server.Close)
	conn, err := pgx.Connect(t.Context(), cfg.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return &world{t, cfg.DatabaseURL, server, conn, a, folder}
}

// served is the configuration of a service that listens, as the environment has it.
func served(t *testing.T, databaseURL, natsURL string) (cfg api.Config) {
	t.Helper()
	require.NoError(t, config.Load(&cfg))
	cfg.Addr, cfg.DatabaseURL, cfg.DatabaseMaxConns, cfg.DatabaseRole, cfg.NATSURL = "127.0.0.1:0", databaseURL, 2, "echomind_api", natsURL
	return cfg
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	_, err := w.conn.Exec(w.Context(), sql, args...)
	require.NoError(w, err, sql)
}

func one[T any](w *world, sql string, args ...any) (value T) {
	w.Helper()
	require.NoError(w, w.conn.QueryRow(w.Context(), sql, args...).Scan(&value), sql)
	return value
}

// caller is somebody with a token.
type caller struct {
	*world
	token string
}

// as makes a token of a user's.
func (w *world) as(user int32, role identity.Role, scopes ...identity.Scope) caller {
	w.Helper()
	if len(scopes) == 0 {
		scopes = identity.Scopes
	}
	secret := identity.NewSecret()
	id := one[int32](w, `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES ($1, $2, $3, $4, 'test') RETURNING id`,
		user, string(role), scopes, secret.Hash())
	return caller{w, identity.Token(id, secret)}
}

// reply is what was answered.
type reply struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

func (c caller) do(method, path string, body any, headers ...string) reply {
	c.Helper()
	var sent io.Reader
	if text, isText := body.(string); isText {
		sent = bytes.NewBufferString(text)
	} else if body != nil {
		text, err := json.Marshal(body)
		require.NoError(c, err)
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(c.Context(), method, c.server.URL+"/api/v1"+path, sent)
	require.NoError(c, err)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if sent != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answered, err := http.DefaultClient.Do(r)
	require.NoError(c, err)
	defer func() { require.NoError(c, answered.Body.Close()) }()
	if answered.Header.Get("Content-Type") == "text/event-stream" { // it goes on for minutes
		return reply{status: answered.StatusCode, header: answered.Header}
	}
	text, err := io.ReadAll(answered.Body)
	require.NoError(c, err)
	out := reply{status: answered.StatusCode, header: answered.Header, text: string(text)}
	if len(text) > 0 {
		require.NoError(c, json.Unmarshal(text, &out.body), out.text)
	}
	return out
}

// get is do for what must succeed.
func (c caller) get(path string) map[string]any {
	c.Helper()
	r := c.do("GET", path, nil)
	require.Equal(c, http.StatusOK, r.status, r.text)
	return r.body
}

// refused requires a problem of a kind.
func (c caller) refused(status int, kind string, r reply) {
	c.Helper()
	require.Equal(c, status, r.status, r.text)
	require.Equal(c, "urn:echomind:problem:"+kind, r.body["type"], r.text)
	require.Equal(c, "application/problem+json", r.header.Get("Content-Type"))
	require.Equal(c, r.header.Get("X-Request-Id"), r.body["request_id"])
}
