package compose

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// env runs env.sh in a folder of its own.
func env(t *testing.T, arguments ...string) (dir, said string, code int) {
	t.Helper()
	script, err := filepath.Abs("env.sh")
	require.NoError(t, err)
	dir = t.TempDir()
	command := exec.Command("sh", append([]string{script}, arguments...)...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		require.NoError(t, err)
	}
	return dir, string(out), command.ProcessState.ExitCode()
}

func TestPasswordsAreMadeOnlyByEnvWithoutArguments(t *testing.T) {
	dir, said, code := env(t, "--help")
	require.Zero(t, code)
	require.Contains(t, said, "usage:")
	require.NoFileExists(t, filepath.Join(dir, ".env"))

	dir, said, code = env(t, "--force")
	require.Equal(t, 2, code)
	require.Contains(t, said, "--force")
	require.NoFileExists(t, filepath.Join(dir, ".env"))

	dir, said, code = env(t)
	require.Zero(t, code)
	require.Contains(t, said, "made SECRETS_KEY")
	require.FileExists(t, filepath.Join(dir, ".env"))
}

func TestNeitherGitNorAnImageTakesSecrets(t *testing.T) {
	for _, file := range []string{".env", "secrets.key"} {
		require.Contains(t, strings.Split(read(t, ".gitignore"), "\n"), file)
		require.Contains(t, strings.Split(read(t, ".dockerignore"), "\n"), "**/"+file)
	}
}
