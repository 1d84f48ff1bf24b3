package files_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/chunker/files"
	"github.com/echomind/sync/services/chunker/files/rootblob"
	"github.com/echomind/sync/services/internal/extract"
)

// mounted mounts a folder a second time, which only root may do.
func mounted(t *testing.T, from, to string) (may bool) {
	t.Helper()
	err := syscall.Mount(from, to, "", syscall.MS_BIND, "")
	if errors.Is(err, syscall.EPERM) {
		return false
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(to, 0)) })
	return true
}

func TestWhatIsMountedOfTheDataFolderIsNeverRead(t *testing.T) {
	dir := folder(t, map[string]string{
		"docs/a.md": "fine", "docs/folder/x": "", "docs/file.md": "", "root/x": "",
		"data/secrets.key": ownSecret, "data/nats/jetstream/msgs/1.md": ownSecret,
	})
	for to, from := range map[string]string{"docs/folder": "data/nats/jetstream", "docs/file.md": "data/secrets.key", "root": "data/nats"} {
		if !mounted(t, filepath.Join(dir, from), filepath.Join(dir, to)) {
			return // this system does not allow it
		}
	}
	roots := files.OpenRoots([]string{filepath.Join(dir, "docs"), filepath.Join(dir, "root")}, filepath.Join(dir, "data"))
	t.Cleanup(func() { require.NoError(t, roots.Close()) })
	s := newStore()
	_, err := files.Sync(t.Context(), config(filepath.Join(dir, "docs")), files.Options{Reader: extract.InProcess{}, Roots: roots}, s)
	require.NoError(t, err)
	require.Equal(t, rootblob.ErrPrivate.Error(), s.Docs()["folder"].Err)
	require.Equal(t, rootblob.ErrPrivate.Error(), s.Docs()["file.md"].Err)
	require.Len(t, s.Docs(), 3)
	for _, inside := range []string{"root", "root/jetstream"} {
		_, err = files.Sync(t.Context(), config(filepath.Join(dir, inside)), files.Options{Reader: extract.InProcess{}, Roots: roots}, newStore())
		require.ErrorContains(t, err, "is this program's own", inside)
	}
}
