package pgserver_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/pgserver"
)

const testTimeout = 90 * time.Second

// ownerArgument makes the test binary the owner of a server, which a test kills.
const ownerArgument = "-own-a-server-in="

func TestMain(m *testing.M) {
	if dir, found := strings.CutPrefix(os.Args[len(os.Args)-1], ownerArgument); found {
		own(dir)
	}
	goleak.VerifyTestMain(m)
}

func own(dir string) {
	server, err := pgserver.Start(context.Background(), pgserver.Config{Dir: dir, Volatile: true})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(server.PID())
	select {}
}

// startOwner runs an owner of a server in dir and returns it with the server's pid.
func startOwner(t *testing.T, dir string) (owner *exec.Cmd, server int) {
	t.Helper()
	owner = exec.Command(os.Args[0], ownerArgument+dir)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	t.Cleanup(func() { _ = owner.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	server, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, line)
	return owner, server
}

// folder returns a folder that the server's user can reach; those of t.TempDir are closed to it.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "echomind-pgserver-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "postgres")
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, dir string) *pgserver.Server {
	t.Helper()
	return startConfig(t, pgserver.Config{Dir: dir, Volatile: true})
}

func startConfig(t *testing.T, cfg pgserver.Config) *pgserver.Server {
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := pgserver.Start(timeout(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	ctx := timeout(t)
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, statement)
	require.NoError(t, err)
	require.NoError(t, conn.Close(ctx))
}

func ask(t *testing.T, url, query string) (answer string) {
	t.Helper()
	ctx := timeout(t)
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	require.NoError(t, conn.QueryRow(ctx, query).Scan(&answer))
	require.NoError(t, conn.Close(ctx))
	return answer
}

// running says whether a process runs; a zombie does not.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	return !strings.Contains(string(stat), ") Z ")
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !running(pid) }, 20*time.Second, 10*time.Millisecond)
}
