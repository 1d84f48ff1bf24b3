package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) {
	confine.Serve(connector.Tasks...)
	os.Exit(testkit.Main(m))
}

const soon = 2 * time.Minute

// login is a token endpoint that rotates every refresh token.
type login struct {
	*httptest.Server
	mu     sync.Mutex
	tokens []string // what it was asked with
	error  string   // what it answers instead
	before func()
}

func newLogin(t *testing.T) *login {
	l := &login{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.PostFormValue("refresh_token")
		l.mu.Lock()
		l.tokens = append(l.tokens, token)
		problem, before, n := l.error, l.before, len(l.tokens)
		l.mu.Unlock()
		if before != nil {
			before()
		}
		w.Header().Set("Content-Type", "application/json")
		if problem != "" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":"what the provider says of %s"}`, problem, token)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": strings.TrimPrefix(fakegraph.Token, "Bearer "), "token_type": "Bearer", "expires_in": 3600,
			"refresh_token": fmt.Sprintf("rotated-refresh-token-%d", n),
		})
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *login) asked() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.tokens...)
}

func (l *login) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// drive is a Drive API whose project has no quota left.
type drive struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // the headers Authorization
}

func newDrive(t *testing.T) *drive {
	d := &drive{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.asked = append(d.asked, r.Header.Get("Authorization"))
		d.mu.Unlock()
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error":{"code":403,"message":"Daily Limit Exceeded","errors":[{"domain":"usageLimits","reason":"dailyLimitExceeded"}]}}`))
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *drive) requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.asked...)
}

// world is a connector service, what it talks to, and what a test does in the place of the other services.
type world struct {
	*testing.T
	pool  *pgxpool.Pool
	nats  *nats.Conn
	graph *fakegraph.Server
	drive *drive
	login *login
	ring  *secret.Ring
	log   *testLog
}

type testLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newWorld runs the service, with a key or without.
func newWorld(t *testing.T, keys bool, change ...func(*connector.Config)) *world {
	t.Helper()
	url, broker := testkit.Database(t, db.Up), testkit.NATS(t)
	w := &world{T: t, graph: fakegraph.New(), drive: newDrive(t), login: newLogin(t), log: &testLog{}}
	t.Cleanup(w.graph.Close)
	var err error
	w.pool, err = postgres.Open(t.Context(), url, "test", 4)
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	w.nats, err = nats.Connect(broker.URL())
	require.NoError(t, err)
	t.Cleanup(w.nats.Close)
	key, err := secret.NewKey()
	require.NoError(t, err)
	w.ring, err = secret.Parse(key)
	require.NoError(t, err)

	var cfg connector.Config
	require.NoError(t, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL, cfg.DatabaseMaxConns = url, broker.URL(), 4
	cfg.MicrosoftGraphURL, cfg.MicrosoftLoginURL = w.graph.Endpoint(), w.login.URL
	cfg.GoogleDriveURL, cfg.GoogleTokenURL = w.drive.URL, w.login.URL
	cfg.AllowCIDRs = []string{"127.0.0.0/8"} // where the fake's downloads are
	cfg.OneDriveRate, cfg.OneDriveBurst = 1000, 1000
	cfg.ShutdownGraceSeconds = 1
	if cfg.SecretsKey, cfg.SecretsKeyFile = "", ""; keys {
		cfg.SecretsKey = key
	}
	for _, c := range change {
		c(&cfg)
	}
	process := connect.NewProcess(slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- connector.Run(ctx, cfg, process) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

// add adds a connector with a refresh token, sealed as `echomind connectors add` does.
func (w *world) add(id int32, token string) {
	w.Helper()
	w.insert(id, w.sealed(id, token))
}

func (w *world) sealed(id int32, token string) string {
	w.Helper()
	sealed, err := w.ring.SealConfig(id, connector.SecretFields("onedrive"), []byte(`{"client_id":"app","refresh_token":"`+token+`"}`))
	require.NoError(w, err)
	return string(sealed)
}

func (w *world) insert(id int32, config string) {
	w.Helper()
	w.exec(`INSERT INTO connectors (id, name, type, user_id, config) VALUES ($1, 'drive', 'onedrive', 1, $2)`, id, config)
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	_, err := w.pool.Exec(context.Background(), sql, args...)
	require.NoError(w, err)
}

func (w *world) text(sql string, args ...any) (text string) {
	w.Helper()
	require.NoError(w, w.pool.QueryRow(context.Background(), sql, args...).Scan(&text))
	return text
}

// claim does what the scheduler does, and returns the session.
func (w *world) claim(id int32) uuid.UUID {
	w.Helper()
	session := movestest.Claim(w, w.pool, id)
	var stored []byte
	var version int64
	var connectorType string
	require.NoError(w, w.pool.QueryRow(context.Background(), `SELECT config, config_version, type FROM connectors WHERE id = $1`, id).
		Scan(&stored, &version, &connectorType))
	config, err := wire.Struct(stored)
	require.NoError(w, err)
	data, err := proto.Marshal(&internalpb.ConnectorSyncRequest{
		ConnectorId: id, UserId: 1, Config: config, ChunkingSession: session.String(), TypeName: connectorType, ConfigVersion: version,
	})
	require.NoError(w, err)
	subject, err := topology.SyncSubject(connectorType)
	require.NoError(w, err)
	testkit.Eventually(w, soon, func() error {
		_, err := w.nats.Request(subject, data, time.Second) // the stream acknowledges
		return err
	})
	return session
}

// fetched waits until the service has handed everything over, and completes in semantic's place.
func (w *world) fetched(session uuid.UUID) {
	w.Helper()
	testkit.Eventually(w, soon, func() error {
		var done bool
		if err := w.pool.QueryRow(context.Background(), `SELECT fetched_at IS NOT NULL FROM scheduler_runs WHERE id = $1`, session).Scan(&done); err != nil {
			return err
		}
		if !done {
			return fmt.Errorf("not fetched: %s", w.log.String())
		}
		return nil
	})
	w.exec(`UPDATE open_runs SET total = 0, whole = true WHERE id = $1`, session)
	w.exec(`SELECT moves.complete($1)`, session)
}

// failed waits for a run's failure and returns its message, and whether it is permanent.
func (w *world) failed(session uuid.UUID) (message string, permanent bool) {
	w.Helper()
	testkit.Eventually(w, soon, func() error {
		return w.pool.QueryRow(context.Background(), `SELECT error_message, reason = 'permanent failure' FROM scheduler_runs
			WHERE id = $1 AND status = 'failed'`, session).Scan(&message, &permanent)
	})
	return message, permanent
}
