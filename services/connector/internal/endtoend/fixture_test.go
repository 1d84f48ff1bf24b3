package endtoend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
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
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) {
	confine.Serve(connector.Tasks...)
	code := testkit.Main(m)
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

const soon = 60 * time.Second

var built string

// programs builds them once, and returns their folder.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "echomind-endtoend-")
	if err != nil {
		return "", err
	}
	built = dir
	out, err := exec.Command("go", "build", "-o", dir+"/", "github.com/echomind/sync/services/semantic/cmd/semantic",
		"github.com/echomind/sync/services/connector/cmd/connector").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

// line is the whole way from a trigger to stored documents, for one connector.
type line struct {
	*testing.T
	database, broker string
	pool             *pgxpool.Pool
	js               jetstream.JetStream
	semantic         *os.Process
	id               int32
	kind             string
	swap             sync.Mutex
	connector        worker.Handler
}

// newLine starts it, for a connector of a type.
func newLine(t *testing.T, kind, config_ string) *line {
	t.Helper()
	l := newStorage(t, kind, config_)
	l.work()
	return l
}

// newStorage starts all of it but who fetches.
func newStorage(t *testing.T, kind, config_ string) *line {
	t.Helper()
	l := &line{T: t, kind: kind, database: testkit.Database(t, db.Up), broker: testkit.NATS(t).URL()}
	var err error
	l.pool, err = postgres.Open(t.Context(), l.database, "test", 4)
	require.NoError(t, err)
	t.Cleanup(l.pool.Close)
	l.js = testkit.JetStream(t, l.broker)
	require.NoError(t, streams.EnsureStreams(t.Context(), l.js))
	l.semantic = l.start("semantic")
	l.add("source", config_)
	return l
}

// add adds a connector, which is the one that is synced from now on.
func (l *line) add(name, config string) {
	l.Helper()
	require.NoError(l, l.pool.QueryRow(context.Background(), `INSERT INTO connectors (name, type, user_id, config, max_retries)
		VALUES ($1, $2, 1, $3, 100) RETURNING id`, name, l.kind, config).Scan(&l.id))
}

// start starts a program.
func (l *line) start(program string, environment ...string) *os.Process {
	l.Helper()
	dir, err := programs()
	require.NoError(l, err)
	cmd := exec.Command(filepath.Join(dir, program))
	cmd.Env = append(os.Environ(), "DATABASE_URL="+l.database, "NATS_URL="+l.broker, "HTTP_ADDR=127.0.0.1:0", "LOG_LEVEL=warn")
	cmd.Env = append(cmd.Env, environment...)
	cmd.Stderr = os.Stderr
	require.NoError(l, cmd.Start())
	l.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process
}

func (l *line) work() {
	l.Helper()
	process := connect.NewProcess(testkit.Logger(l.T))
	servers, err := connect.Open(context.Background(), config.Common{DatabaseURL: l.database, NATSURL: l.broker, DatabaseMaxConns: 4}, "test", process)
	require.NoError(l, err)
	cfg := worker.DefaultConfig()
	cfg.Slots, cfg.Grace = 1, time.Second
	w, err := worker.New(l.kind, func(ctx context.Context, run *worker.Run) error {
		l.swap.Lock()
		handle := l.connector
		l.swap.Unlock()
		return handle(ctx, run)
	}, cfg, servers, process)
	require.NoError(l, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	l.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, servers.Close()); err != nil {
			l.Errorf("the worker ended: %v", err)
		}
	})
}

// sync syncs with a handler, and returns the run's verdict and reason.
func (l *line) sync(handle worker.Handler) (verdict string) {
	l.Helper()
	l.swap.Lock()
	l.connector = handle
	l.swap.Unlock()
	return l.trigger()
}

// trigger does what the scheduler does, and returns the run's verdict and reason.
func (l *line) trigger() (verdict string) {
	l.Helper()
	return l.verdict(l.dispatch())
}

// dispatch claims the connector and publishes its trigger; a run that is open is one whose worker was lost.
func (l *line) dispatch() (session uuid.UUID) {
	l.Helper()
	ctx := context.Background()
	l.exec(`SELECT moves.end_runs(ARRAY[id], 'failed', 'worker lost') FROM open_runs WHERE connector_id = $1`, l.id)
	movestest.Force(l, l.pool, `UPDATE connectors SET status = 'ERROR', run_id = NULL WHERE id = $1 AND run_id IS NOT NULL`, l.id)
	session = movestest.Claim(l, l.pool, l.id)
	var config, state, listing []byte
	var scope string
	request := &internalpb.ConnectorSyncRequest{ConnectorId: l.id, UserId: 1, ChunkingSession: session.String(), TypeName: l.kind}
	require.NoError(l, l.pool.QueryRow(ctx, `SELECT config, state, listing, config_version, scope FROM connectors WHERE id = $1`, l.id).
		Scan(&config, &state, &listing, &request.ConfigVersion, &scope))
	var err error
	request.Scope, err = wire.Scope(scope)
	require.NoError(l, err)
	request.Config, err = wire.Struct(config)
	require.NoError(l, err)
	request.State, err = wire.Struct(state)
	require.NoError(l, err)
	if listing != nil {
		request.Listing, err = wire.Struct(listing)
		require.NoError(l, err)
	}
	data, err := proto.Marshal(request)
	require.NoError(l, err)
	subject, err := topology.SyncSubject(l.kind)
	require.NoError(l, err)
	_, err = l.js.Publish(ctx, subject, data)
	require.NoError(l, err)
	return session
}

// verdict waits for a run's, and returns it with its reason.
func (l *line) verdict(session uuid.UUID) (verdict string) {
	l.Helper()
	testkit.Eventually(l, soon, func() error {
		var status string
		if err := l.pool.QueryRow(context.Background(), `SELECT status, concat(status, ': ', error_message) FROM scheduler_runs WHERE id = $1`, session).
			Scan(&status, &verdict); err != nil {
			return err
		}
		if status == "running" {
			return errors.New("the run is still open")
		}
		return nil
	})
	return strings.TrimSuffix(verdict, ": ")
}

func (l *line) exec(sql string, args ...any) {
	l.Helper()
	_, err := l.pool.Exec(context.Background(), sql, args...)
	require.NoError(l, err)
}

// committed waits until a state is the connector's, as a checkpoint leaves it.
func (l *line) committed(ctx context.Context, link string) error {
	for {
		var is bool
		err := l.pool.QueryRow(ctx, `SELECT coalesce(state->>'page', state->'cursor'->>'link', state->'cursor'->>'listing', state->>'link', state->>'listing', '') = $2 FROM connectors WHERE id = $1`, l.id, link).Scan(&is)
		if err != nil || is {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// document is what is stored of one.
type document struct{ Title, URL, Text, Err string }

// documents are what a search would find.
func (l *line) documents() map[string]document {
	l.Helper()
	rows, err := l.pool.Query(context.Background(), `SELECT d.source_id, d.title, d.url, coalesce(d.error, ''), coalesce(
			(SELECT string_agg(c.text, '' ORDER BY c.no) FROM chunks c
			WHERE c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id), '')
		FROM documents d WHERE d.connector_id = $1 AND d.status IN ('stored', 'failed')`, l.id)
	require.NoError(l, err)
	defer rows.Close()
	all := map[string]document{}
	for rows.Next() {
		var id string
		var d document
		require.NoError(l, rows.Scan(&id, &d.Title, &d.URL, &d.Err, &d.Text))
		all[id] = d
	}
	require.NoError(l, rows.Err())
	return all
}
