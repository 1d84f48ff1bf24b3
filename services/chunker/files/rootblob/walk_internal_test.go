package rootblob

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A name of control characters takes three times as many bytes in a key.
func TestTheNamesOfADeepFolderAreHeldWithoutTheirPaths(t *testing.T) {
	const depth, count = 5, 300
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	deep := strings.Repeat(strings.Repeat("\x01", 255)+"/", depth)
	require.NoError(t, root.MkdirAll(deep, 0o700))
	for i := range count {
		require.NoError(t, root.WriteFile(deep+strconv.Itoa(i), nil, 0o600))
	}
	b := &bucket{root: root}
	w, err := newWalk(t.Context(), b, "", "", "", &Listing{})
	require.NoError(t, err)
	defer w.close()
	most := 0
	for listed := 0; ; listed++ {
		object, err := w.next(t.Context())
		require.NoError(t, err)
		held := 0
		for _, l := range w.levels {
			held += l.names.bytes()
		}
		most = max(most, held)
		require.LessOrEqual(t, held, w.bytes)
		if object == nil {
			require.Equal(t, count, listed)
			break
		}
		require.Equal(t, len(Escape(deep)), strings.LastIndex(object.Key, "/")+1)
	}
	require.Less(t, most, 10_000, "with their paths they would take a megabyte")
	require.Zero(t, w.bytes, "what is read is not counted any more")
}
