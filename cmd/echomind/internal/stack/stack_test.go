package stack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/internal/testkit"
	"github.com/echomind/sync/services/semantic"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func run(t *testing.T, dataDir, root string) (conn *pgx.Conn, stop func()) {
	t.Helper()
	var cfg stack.Config
	for _, part := range []any{&cfg.Scheduler, &cfg.Chunker, &cfg.Semantic} {
		require.NoError(t, config.Load(part))
	}
	cfg.Log = testkit.Logger(t)
	cfg.Devstack.DataDir = dataDir
	cfg.Chunker.FileRoots = []string{root}
	started := make(chan devstack.Info, 1)
	cfg.Started = func(info devstack.Info, _ *devstack.Stack) { started <- info }
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
	root := t.TempDir()
	for i := range 50 {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("doc%d.md", i)),
			[]byte(fmt.Sprintf("# Title %d\n\nThe zebra number %d runs over the hill.\n", i, i)), 0o600))
	}
	dataDir, err := os.MkdirTemp("", "echomind-stack-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dataDir, 0o711))
	t.Cleanup(func() { _ = os.RemoveAll(dataDir) })
	conn, stop := run(t, dataDir, root)
	defer stop()
	cfg, err := json.Marshal(map[string]string{"url": "file://" + root})
	require.NoError(t, err)
	var id int
	require.NoError(t, conn.QueryRow(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('docs', 'file', 1, $1, 60) RETURNING id`, cfg).Scan(&id))
	require.Equal(t, "completed", verdict(t, conn, id))
	var status string
	var docs int
	require.NoError(t, conn.QueryRow(ctx, `SELECT status, docs_analyzed FROM connectors WHERE id=$1`, id).Scan(&status, &docs))
	require.Equal(t, "ACTIVE", status)
	require.Equal(t, 50, docs)
	_ = semantic.MaxSearchLimit
}
