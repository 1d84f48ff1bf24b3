package console

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFileThatHasBecomeAnotherLengthWhileItWaitedIsNotSentInPart(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]string{"longer": "# Okapis, quaggas", "shorter": "# Ok"} {
		path := filepath.Join(t.TempDir(), "notes.md")
		require.NoError(t, os.WriteFile(path, []byte("# Okapis"), 0o600))
		files, err := localFiles([]string{path})
		require.NoError(t, err)
		_, body, _, err := form(files)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(now), 0o600))
		_, err = io.Copy(io.Discard, body)
		require.ErrorContains(t, err, "has become "+name+" while it was sent; upload it again", name)
	}
}
