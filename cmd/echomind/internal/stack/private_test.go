package stack_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/secret"
)

func TestFileConnectorsReadNothingThatNobodyHasNamed(t *testing.T) {
	t.Setenv("CHUNKER_FILE_ROOTS", "")
	cfg, err := stack.LoadConfig(io.Discard)
	require.NoError(t, err)
	require.Empty(t, cfg.Chunker.FileRoots)
}

// The folder that somebody lets connectors read holds, as a working folder does, the data folder and an .env.
func TestARunningStackDoesNotIndexItsOwnSecrets(t *testing.T) {
	root := dataFolder(t)
	dir := filepath.Join(root, "data")
	notes := filepath.Join(root, "notes")
	require.NoError(t, os.MkdirAll(notes, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(notes, "a.md"), []byte("Zebras run home."), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(notes, ".env"), []byte("SECRETS_KEY=zebra-in-the-environment"), 0o644))
	require.NoError(t, os.Symlink(secret.FileIn(dir), filepath.Join(notes, "key.txt")))
	conn, stop := run(t, dir, root)
	defer stop()
	key, err := os.ReadFile(secret.FileIn(dir))
	require.NoError(t, err)
	require.NoError(t, os.Link(secret.FileIn(dir), filepath.Join(notes, "hard.txt")))
	all := insert(t, conn, "file", map[string]any{"url": "file://" + root, "hidden": true, "max_files": 1000})
	require.Equal(t, "completed", verdict(t, conn, all))
	for _, url := range []string{"file://" + dir, "file://" + dir + "/postgres"} {
		own := insert(t, conn, "file", map[string]any{"url": url})
		require.Equal(t, "failed", verdict(t, conn, own))
		var message string
		require.NoError(t, conn.QueryRow(context.Background(), `SELECT status_message FROM connectors WHERE id = $1`, own).Scan(&message))
		require.Contains(t, message, "is this program's own, and is never read")
	}
	var held string
	require.NoError(t, conn.QueryRow(context.Background(), `SELECT coalesce(string_agg(text, ' '), '') FROM chunks`).Scan(&held))
	require.Contains(t, held, "Zebras run home.")
	require.NotContains(t, held, string(key[:20]))
	require.NotContains(t, held, "zebra-in-the-environment")
	var refused int
	require.NoError(t, conn.QueryRow(context.Background(), `SELECT count(*) FROM documents WHERE error LIKE 'not read: it may hold this program''s own secrets%'
		AND source_id LIKE '%.env' OR source_id LIKE '%hard.txt'`).Scan(&refused))
	require.Equal(t, 2, refused)
}
