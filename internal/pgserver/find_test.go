//go:build !race

package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// install puts programs into a folder that answer as those of a version.
func install(t *testing.T, dir, version string, programs ...string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, program := range programs {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", program, version)
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755))
	}
	return dir
}

func TestTheNewestVersionOfAFolderIsChosen(t *testing.T) {
	root := t.TempDir()
	install(t, filepath.Join(root, "9.6", "bin"), "9.6.24", "postgres", "initdb")
	install(t, filepath.Join(root, "15", "bin"), "15.14 (Debian 15.14-0+deb12u1)", "postgres", "initdb")
	newest := install(t, filepath.Join(root, "18", "bin"), "18beta1", "postgres", "initdb")
	got, err := choose(list([]string{filepath.Join(root, "*", "bin")}))
	require.NoError(t, err)
	require.Equal(t, newest, got)
}

func TestAFolderWithoutInitdbOrTooOldIsPassedOver(t *testing.T) {
	root := t.TempDir()
	client := install(t, filepath.Join(root, "client"), "17.2", "postgres")
	old := install(t, filepath.Join(root, "old"), "14.9", "postgres", "initdb")
	good := install(t, filepath.Join(root, "good"), "15.0", "postgres", "initdb")
	got, err := choose([]string{client, old, good})
	require.NoError(t, err)
	require.Equal(t, good, got)
}

func TestWhereNothingFitsTheErrorSaysWhatToInstall(t *testing.T) {
	root := t.TempDir()
	old := install(t, filepath.Join(root, "old"), "14.9", "postgres", "initdb")
	_, err := choose([]string{filepath.Join(root, "none"), old})
	require.ErrorIs(t, err, ErrNoBinaries)
	for _, part := range []string{"apt-get", "dnf", "brew", "DATABASE_URL", old + " is version 14"} {
		require.ErrorContains(t, err, part)
	}
}

func TestThisMachineHasAServer(t *testing.T) {
	dir, err := Find()
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "initdb"))
}
