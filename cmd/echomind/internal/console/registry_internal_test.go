package console

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
)

// registered is a stack, of servers elsewhere, that left word in a registry.
func registered(t *testing.T, registry string) (dir string, forget func() error) {
	t.Helper()
	dir = t.TempDir()
	stack, err := devstack.Start(context.Background(), devstack.Config{DataDir: dir, DatabaseURL: "postgres://db/x", NATSURL: "nats://n"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop(context.Background())) })
	forget, err = stack.Register(registry)
	require.NoError(t, err)
	return dir, forget
}

func TestTheOnlyRunningStackIsFoundFromAnyFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	lookup := config.Lookup{}
	require.NoError(t, config.Load(&lookup))
	require.Equal(t, config.DefaultDataDir, lookup.DataDir)
	var said bytes.Buffer
	f := &finder{registry: t.TempDir(), say: &said, fromEnvironment: func() (config.Lookup, error) { return lookup, nil }}
	_, notRunning, err := f.find()
	require.NoError(t, err)
	require.ErrorIs(t, notRunning, devstack.ErrNotRunning)

	first, _ := registered(t, f.registry)
	found, err := f.lookup()
	require.NoError(t, err)
	require.Equal(t, first, found.DataDir)

	require.Equal(t, "of the stack in "+first+"\n", said.String())

	second, forget := registered(t, f.registry)
	_, err = f.lookup()
	require.ErrorContains(t, err, first)
	require.ErrorContains(t, err, second)
	require.ErrorContains(t, err, "ECHOMIND_DATA_DIR")
	lookup.DataDir = second
	found, err = f.lookup()
	require.NoError(t, err, "what is named is taken")
	require.Equal(t, second, found.DataDir)

	lookup.DataDir = config.DefaultDataDir
	require.NoError(t, forget())
	found, err = f.lookup()
	require.NoError(t, err)
	require.Equal(t, first, found.DataDir)
	require.NoError(t, os.Mkdir(config.DefaultDataDir, 0o700))
	found, err = f.lookup()
	require.NoError(t, err, "a folder with a stack of its own, which does not run")
	require.Equal(t, config.DefaultDataDir, found.DataDir)
}

func TestOnlyANumberAsItIsShownIsAConnectorsNumber(t *testing.T) {
	for text, number := range map[string]bool{"7": true, "42": true, "0": true, "0002": false, "00": false, "7a": false, "-7": false} {
		require.Equal(t, number, isNumber(text), text)
	}
}
