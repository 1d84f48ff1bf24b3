package console_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/services/chunker"
)

// runningStack is a stack in a data folder of its own, with what its sources may read.
func runningStack(t *testing.T, reach chunker.Reach) (terminal, *devstack.Stack) {
	t.Helper()
	servers := newTerminal(t).withStreams()
	u := terminal{t, config.Lookup{DataDir: t.TempDir()}}
	stack, err := devstack.Start(context.Background(), devstack.Config{
		DataDir: u.lookup.DataDir, DatabaseURL: servers.lookup.DatabaseURL, NATSURL: servers.lookup.NATSURL,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop(context.Background())) })
	require.NoError(t, stack.SetReach(reach))
	return u, stack
}

func TestWhatTheRunningStackWouldRefuseIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "docs"), 0o700))
	u, _ := runningStack(t, chunker.Config{FileRoots: []string{root}}.Reach())
	config := func(url string) string { return `{"url":"` + url + `"}` }
	u.add("--config", config("file://"+root+"/docs"))
	for url, says := range map[string]string{
		"file:///etc":                 "--config, for type file: url: the folder \"/etc\" is not in an allowed root; add its root to CHUNKER_FILE_ROOTS (--file-roots of `echomind run`)",
		"file://" + root + "/nowhere": "does not exist",
	} {
		out := u.run("connectors", "add", "--name", "x", "--type", "file", "--user", "1", "--config", config(url))
		require.Equal(t, 2, out.code)
		require.Contains(t, out.stderr, says)
		require.Contains(t, out.stderr, "--no-config-check")
		out = u.run("connectors", "update", "1", "--config", config(url))
		require.Equal(t, 2, out.code)
		require.Contains(t, out.stderr, says)
	}
	out := u.run("connectors", "add", "--name", "x", "--type", "web", "--user", "1", "--config", config("http://127.0.0.1:9/"))
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stderr, "add 127.0.0.1/32 to CHUNKER_ALLOW_CIDRS (--allow-cidrs of `echomind run`)")
	require.Len(t, u.array("connectors", "list"), 1)
	u.add("--no-config-check", "--config", config("file:///etc"))
	u.succeed("connectors", "update", "2", "--name", "what stands may be renamed")
}
