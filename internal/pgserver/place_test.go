//go:build !race

package pgserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/pgserver"
)

// closedFolder returns a folder that only our user can reach, as /root is.
func closedFolder(t *testing.T) string {
	t.Helper()
	closed, err := os.MkdirTemp("", "echomind-closed-")
	require.NoError(t, err)
	dir := filepath.Join(closed, "postgres")
	t.Cleanup(func() {
		require.NoError(t, pgserver.Remove(timeout(t), dir))
		require.NoError(t, os.RemoveAll(closed))
	})
	return dir
}

func TestAFolderThatTheServersUserCannotReachHasItsClusterElsewhere(t *testing.T) {
	dir := closedFolder(t)
	first := start(t, dir)
	if os.Geteuid() != 0 {
		require.Equal(t, filepath.Join(dir, "cluster"), first.Dir(), "our own user runs the server, and reaches it")
		return
	}
	require.True(t, strings.HasPrefix(first.Dir(), "/var/lib/echomind/"), first.Dir())
	require.NotZero(t, ownerOf(t, first.Dir()).Uid)
	require.FileExists(t, filepath.Join(dir, "postgres.log"))
	execute(t, first.URL(), `CREATE TABLE kept AS SELECT 'here'::text AS word`)
	require.NoError(t, first.Stop(timeout(t)))

	second := start(t, dir)
	require.Equal(t, first.Dir(), second.Dir())
	require.Equal(t, first.URL(), second.URL())
	require.Equal(t, "here", ask(t, second.URL(), `SELECT word FROM kept`))
	require.NoError(t, second.Stop(timeout(t)))

	// The folder is opened: the cluster stays where its data is.
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711))
	third := start(t, dir)
	require.Equal(t, first.Dir(), third.Dir())
	require.Equal(t, "here", ask(t, third.URL(), `SELECT word FROM kept`))
	require.NoError(t, third.Stop(timeout(t)))

	// The data folder is deleted: a fresh start, and the old data is put aside.
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o700))
	fourth := start(t, dir)
	require.Equal(t, first.Dir(), fourth.Dir())
	require.Equal(t, "0", ask(t, fourth.URL(), `SELECT count(*)::text FROM pg_class WHERE relname = 'kept'`))
	aside, err := filepath.Glob(fourth.Dir() + ".aside-*")
	require.NoError(t, err)
	require.Len(t, aside, 1)
}

func TestAFolderThatTheServersUserCanReachHoldsItsCluster(t *testing.T) {
	dir := folder(t)
	server := start(t, dir)
	require.Equal(t, filepath.Join(dir, "cluster"), server.Dir())
	require.NotZero(t, ownerOf(t, server.Dir()).Uid)
}

func TestAMovedFolderKeepsItsData(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	execute(t, first.URL(), `CREATE TABLE kept AS SELECT 'here'::text AS word`)
	require.NoError(t, first.Stop(timeout(t)))
	require.NoError(t, os.Rename(dir, dir+"-moved"))
	second := start(t, dir+"-moved")
	require.Equal(t, "here", ask(t, second.URL(), `SELECT word FROM kept`))
}
