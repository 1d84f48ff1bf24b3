package stack_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) {
	confine.Serve(stack.Tasks...)
	code := testkit.Main(m)
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

func run(t *testing.T, dataDir, root string, tune ...func(*stack.Config)) (conn *pgx.Conn, stop func()) {
	t.Helper()
	var cfg stack.Config
	for _, part := range []any{&cfg.Scheduler, &cfg.Chunker, &cfg.Connector, &cfg.Semantic} {
		require.NoError(t, config.Load(part))
	}
	cfg.Log = testkit.Logger(t)
	cfg.Devstack.DataDir = dataDir
	cfg.Chunker.FileRoots = []string{root}
	for _, change := range tune {
		change(&cfg)
	}
	started := make(chan devstack.Info, 1)
	cfg.Started = func(info devstack.Info, _ *devstack.Stack, _, _, _ string) { started <- info }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stack.Run(ctx, cfg) }()
	var info devstack.Info
	select {
	case info = <-started:
	case err := <-ended:
		t.Fatalf("the stack ended: %v", err)
	case <-time.After(60 * time.Second):
		t.Fatal("the stack does not start")
	}
	conn, err := pgx.Connect(ctx, info.DatabaseURL)
	require.NoError(t, err)
	return conn, func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(40 * time.Second):
			t.Fatal("the stack does not stop")
		}
	}
}

func search(t *testing.T, conn *pgx.Conn, text string) ([]semantic.Hit, error) {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), conn.Config().ConnString())
	require.NoError(t, err)
	defer pool.Close()
	return semantic.NewSearcher(pool, config.Qdrant{}).Search(context.Background(), semantic.Reader{UserID: 1}, text, 5)
}

func verdict(t *testing.T, conn *pgx.Conn, id int) (status string) {
	testkit.Eventually(t, 60*time.Second, func() error {
		err := conn.QueryRow(context.Background(), `SELECT status FROM scheduler_runs WHERE connector_id = $1
			AND status <> 'running' ORDER BY started_at DESC LIMIT 1`, id).Scan(&status)
		if err != nil {
			return fmt.Errorf("no verdict: %w", err)
		}
		return nil
	})
	return status
}

func TestAFolderIsSyncedAndFound(t *testing.T) {
	ctx := context.Background()
	root := writeDocs(t, 50)
	conn, stop := run(t, dataFolder(t), root)
	defer stop()
	id := insert(t, conn, "file", map[string]any{"url": "file://" + root})
	require.Equal(t, "completed", verdict(t, conn, id))
	var status string
	var docs int
	require.NoError(t, conn.QueryRow(ctx, `SELECT status, docs_analyzed FROM connectors WHERE id = $1`, id).Scan(&status, &docs))
	require.Equal(t, "ACTIVE", status)
	require.Equal(t, 50, docs)
	hits, err := search(t, conn, "zebra number 17")
	require.NoError(t, err)
	require.Equal(t, "doc17.md", hits[0].SourceID)
}

func TestAPrivateAddressIsRefusedUnlessItIsAllowed(t *testing.T) {
	site := httptest.NewServer(http.FileServer(http.Dir(writeDocs(t, 3))))
	defer site.Close()
	conn, stop := run(t, dataFolder(t), t.TempDir())
	defer stop()
	id := insert(t, conn, "web", map[string]any{"url": site.URL})
	require.Equal(t, "failed", verdict(t, conn, id))
	var status, message string
	var next *time.Time
	require.NoError(t, conn.QueryRow(context.Background(), `SELECT status, status_message, next_sync_at FROM connectors
		WHERE id = $1`, id).Scan(&status, &message, &next))
	require.Equal(t, "ERROR", status)
	require.Contains(t, message, "CHUNKER_ALLOW_CIDRS")
	require.Nil(t, next, "a permanent failure is not tried again")
}

func TestATakenPortIsSaidBeforeAnythingStarts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	dir := filepath.Join(t.TempDir(), "data")
	taken := listener.Addr().String()
	err = stack.Run(context.Background(), stack.Config{Devstack: devstack.Config{DataDir: dir}, HTTPAddr: taken})
	require.ErrorContains(t, err, "HTTP_ADDR \""+taken+"\": another program listens there")
	require.NoDirExists(t, dir)
}
