package devstack_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/devstack"
)

const testTimeout = 90 * time.Second

// ownerArgument makes the test binary the owner of a stack, which a test kills.
const ownerArgument = "-own-a-stack-in="

func TestMain(m *testing.M) {
	if dir, found := strings.CutPrefix(os.Args[len(os.Args)-1], ownerArgument); found {
		if _, err := devstack.Start(context.Background(), devstack.Config{DataDir: dir}); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println("ready")
		select {}
	}
	goleak.VerifyTestMain(m)
}

// folder returns a folder that does not exist yet and that the server's user can reach.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "echomind-devstack-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "data")
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, cfg devstack.Config) *devstack.Stack {
	t.Helper()
	stack, err := devstack.Start(timeout(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop(context.Background())) })
	return stack
}

func requireAnswers(t *testing.T, info devstack.Info) {
	t.Helper()
	ctx := timeout(t)
	conn, err := pgx.Connect(ctx, info.DatabaseURL)
	require.NoError(t, err)
	require.NoError(t, conn.Close(ctx))
	client, err := nats.Connect(info.NATSURL)
	require.NoError(t, err)
	client.Close()
}

func TestARunningStackIsFoundAndAStoppedOneIsNot(t *testing.T) {
	dir := folder(t)
	_, err := devstack.Discover(dir)
	require.ErrorIs(t, err, devstack.ErrNotRunning)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "echomind run")

	stack := start(t, devstack.Config{DataDir: dir})
	requireAnswers(t, stack.Info())
	require.NoError(t, stack.SetHTTPAddr("127.0.0.1:8080"))
	found, err := devstack.Discover(dir)
	require.NoError(t, err)
	require.Equal(t, stack.Info(), found)
	require.Equal(t, os.Getpid(), found.PID)
	require.Equal(t, "127.0.0.1:8080", found.HTTPAddr)
	secrets, err := os.Stat(filepath.Join(dir, "stack.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), secrets.Mode().Perm())

	require.NoError(t, stack.Stop(timeout(t)))
	require.NoFileExists(t, filepath.Join(dir, "stack.json"))
	_, err = devstack.Discover(dir)
	require.ErrorIs(t, err, devstack.ErrNotRunning)
	require.NoError(t, stack.Err())
}

func TestASecondStackOnTheSameFolderIsRefused(t *testing.T) {
	dir := folder(t)
	first := start(t, devstack.Config{DataDir: dir})
	_, err := devstack.Start(timeout(t), devstack.Config{DataDir: dir})
	require.ErrorIs(t, err, devstack.ErrAlreadyRunning)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", os.Getpid()))
	requireAnswers(t, first.Info())
}

func TestConfiguredServersAreUsedInsteadOfEmbeddedOnes(t *testing.T) {
	dir := folder(t)
	stack := start(t, devstack.Config{
		DataDir: dir, DatabaseURL: "postgres://db.example/echomind", NATSURL: "nats://nats.example:4222",
	})
	require.Equal(t, "postgres://db.example/echomind", stack.Info().DatabaseURL)
	require.Equal(t, "nats://nats.example:4222", stack.Info().NATSURL)
	require.Empty(t, stack.PostgresDir())
	require.NoDirExists(t, filepath.Join(dir, "postgres"))
	require.NoDirExists(t, filepath.Join(dir, "nats"))
}

func TestAKilledStackIsNotFoundAndTheNextOneHasItsServers(t *testing.T) {
	dir := folder(t)
	owner := exec.Command(os.Args[0], ownerArgument+dir)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	said := make([]byte, len("ready\n"))
	_, err = io.ReadFull(out, said)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(said))
	before, err := devstack.Discover(dir)
	require.NoError(t, err)
	require.Equal(t, owner.Process.Pid, before.PID)
	require.NoError(t, owner.Process.Kill())
	require.Error(t, owner.Wait())

	require.FileExists(t, filepath.Join(dir, "stack.json"))
	_, err = devstack.Discover(dir)
	require.ErrorIs(t, err, devstack.ErrNotRunning)

	stack := start(t, devstack.Config{DataDir: dir})
	require.Equal(t, before.DatabaseURL, stack.Info().DatabaseURL)
	require.Equal(t, before.NATSURL, stack.Info().NATSURL)
	requireAnswers(t, stack.Info())
}

func TestTheEndOfAServerIsNoticed(t *testing.T) {
	stack := start(t, devstack.Config{DataDir: folder(t), NATSURL: "nats://nats.example:4222"})
	require.NoError(t, stack.Err())
	pidFile, err := os.ReadFile(filepath.Join(stack.PostgresDir(), "postmaster.pid"))
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(pidFile), &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	<-stack.Ended()
	require.ErrorContains(t, stack.Err(), "PostgreSQL is gone")
	require.NoError(t, stack.Stop(timeout(t)))
}

func TestAStackThatCannotStartLeavesTheFolderFree(t *testing.T) {
	dir := folder(t)
	require.NoError(t, os.MkdirAll(dir, 0o711))
	// NATS starts second: Postgres must be stopped again.
	blocker := filepath.Join(dir, "nats")
	require.NoError(t, os.WriteFile(blocker, nil, 0o600))
	_, err := devstack.Start(timeout(t), devstack.Config{DataDir: dir})
	require.ErrorContains(t, err, "start the embedded NATS")
	require.NoError(t, os.Remove(blocker))
	requireAnswers(t, start(t, devstack.Config{DataDir: dir}).Info())
}
