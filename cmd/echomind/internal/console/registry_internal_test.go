package console

import (
	"context"
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
	f := &finder{registry: t.TempDir(), fromEnvironment: func() (config.Lookup, error) { return lookup, nil }}
	_, notRunning, err := f.find()
	require.NoError(t, err)
	require.ErrorIs(t, notRunning, devstack.ErrNotRunning)

	first, _ := registered(t, f.registry)
	found, err := f.lookup()
	require.NoError(t, err)
	require.Equal(t, first, found.DataDir)

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
}
