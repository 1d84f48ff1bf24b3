package rootblob_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/echomind/sync/services/chunker/files/rootblob"
)

// Without any private path: the kernel's files are recognised by their file system, wherever it is mounted.
func TestAFileSystemOfTheKernelsIsNotReadWhereverItIsMounted(t *testing.T) {
	for dir, name := range map[string]string{"/proc/self": "status", "/sys/kernel": "mm/transparent_hugepage/enabled"} {
		b := open(t, dir)
		_, err := b.ReadAll(t.Context(), name)
		require.ErrorIs(t, err, rootblob.ErrPrivate, dir)
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		_, err = rootblob.Descend(root, ".", nil)
		require.ErrorIs(t, err, rootblob.ErrPrivate, dir)
		require.NoError(t, root.Close())
	}
	require.Equal(t, []string{"proc"}, list(t, open(t, "/"), 10, &blob.ListOptions{Prefix: "proc"}))
}
