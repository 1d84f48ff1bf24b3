package datadir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/devstack/datadir"
)

func TestAClaimIsHeldByOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	_, held, err := datadir.Holder(path)
	require.NoError(t, err)
	require.False(t, held)

	claim, err := datadir.Take(path)
	require.NoError(t, err)
	pid, held, err := datadir.Holder(path)
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, os.Getpid(), pid)
	_, err = datadir.Take(path)
	var already *datadir.HeldError
	require.ErrorAs(t, err, &already)
	require.Equal(t, os.Getpid(), already.PID)

	require.NoError(t, claim.Release())
	_, held, err = datadir.Holder(path)
	require.NoError(t, err)
	require.False(t, held)
	again, err := datadir.Take(path)
	require.NoError(t, err)
	require.NoError(t, again.Release())
}

func TestAReplacedFileIsPrivateAndLeavesNothingBesideIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"first, and longer", "second"} {
		require.NoError(t, datadir.Replace(path, []byte(content)))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestAPathThatIsNoFolderIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorIs(t, datadir.Make(path), datadir.ErrNotFolder)
}
