//go:build !race

package pgserver_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/pgserver"
)

func TestAKilledOwnerLeavesNoServerBehindAndLosesNothing(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	execute(t, first.URL(), `CREATE TABLE kept (word text)`)
	require.NoError(t, first.Stop(timeout(t)))

	owner, pid := startOwner(t, dir)
	execute(t, first.URL(), `INSERT INTO kept VALUES ('here')`)
	require.NoError(t, owner.Process.Kill())
	require.Error(t, owner.Wait())

	// The next start follows at once: it waits for the dying server, or stops it.
	second := start(t, dir)
	require.Equal(t, first.URL(), second.URL())
	require.Equal(t, "here", ask(t, second.URL(), `SELECT word FROM kept`))
	requireGone(t, pid)
	require.NoError(t, second.Stop(timeout(t)))
	requireGone(t, second.PID())
}

// startDetached runs a server without an owner, like one whose parent has died where the kernel does not end it.
func startDetached(t *testing.T, server *pgserver.Server) *exec.Cmd {
	t.Helper()
	bin, err := pgserver.Find()
	require.NoError(t, err)
	address, err := url.Parse(server.URL())
	require.NoError(t, err)
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", server.Dir(),
		"-p", address.Port(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	cmd.Dir = server.Dir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		owner := ownerOf(t, server.Dir())
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(server.Dir(), "postmaster.pid"))
		return err == nil && strings.Contains(string(content), "ready")
	}, 20*time.Second, 10*time.Millisecond)
	return cmd
}

func ownerOf(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t)
}

func TestAServerLeftBehindIsStopped(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	require.NoError(t, first.Stop(timeout(t)))
	orphan := startDetached(t, first)

	// Its exit code is not read here, so that it stays a zombie, as orphans do where no init process reaps them.
	second := start(t, dir)
	require.Equal(t, "on", ask(t, second.URL(), `SELECT 'on'`))
	require.False(t, running(orphan.Process.Pid))
	require.NoError(t, orphan.Wait(), "a fast shutdown ends with 0")
}

func TestAFrozenServerLeftBehindIsStopped(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	require.NoError(t, first.Stop(timeout(t)))
	orphan := startDetached(t, first)
	require.NoError(t, orphan.Process.Signal(syscall.SIGSTOP))

	second := start(t, dir)
	require.Equal(t, "on", ask(t, second.URL(), `SELECT 'on'`))
	require.NoError(t, orphan.Wait())
}

func TestRemoveStopsAServerLeftBehind(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	require.NoError(t, first.Stop(timeout(t)))
	orphan := startDetached(t, first)
	require.NoError(t, pgserver.Remove(timeout(t), dir))
	require.NoError(t, orphan.Wait())
}

func TestAStalePIDFileIsNoObstacleAndItsNumberIsNotKilled(t *testing.T) {
	dir := folder(t)
	first := start(t, dir)
	require.NoError(t, first.Stop(timeout(t)))

	bystander := exec.Command("sleep", "1000")
	bystander.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		// Postgres takes a process of its own user for a rival server.
		owner := ownerOf(t, first.Dir())
		bystander.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	require.NoError(t, bystander.Start())
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })

	for _, content := range []string{
		fmt.Sprintf("%d\n%s\n1700000000\n5432\n\n127.0.0.1\n", bystander.Process.Pid, first.Dir()),
		"4194303\n" + first.Dir() + "\n",
		"",
	} {
		path := filepath.Join(first.Dir(), "postmaster.pid")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		if owner := ownerOf(t, first.Dir()); os.Geteuid() == 0 {
			require.NoError(t, os.Chown(path, int(owner.Uid), int(owner.Gid)))
		}
		server := start(t, dir)
		require.Equal(t, "on", ask(t, server.URL(), `SELECT 'on'`))
		require.NoError(t, server.Stop(timeout(t)))
		require.True(t, running(bystander.Process.Pid))
	}
}

func TestAnInitdbThatWasKilledHalfwayIsDoneAgain(t *testing.T) {
	dir := folder(t)
	owner := exec.Command(os.Args[0], ownerArgument+dir)
	require.NoError(t, owner.Start())
	halfDone := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, ".init-*", "cluster", "base"))
		require.NoError(t, err)
		return found
	}
	require.Eventually(t, func() bool { return len(halfDone()) == 1 }, 20*time.Second, time.Millisecond)
	require.NoError(t, owner.Process.Kill())
	require.Error(t, owner.Wait())
	require.NoDirExists(t, filepath.Join(dir, "cluster"))

	server := start(t, dir)
	require.Equal(t, "on", ask(t, server.URL(), `SELECT 'on'`))
	require.Empty(t, halfDone())
}

func TestAServerThatDiesIsNoticedAndRestartsWhereItWas(t *testing.T) {
	for name, kill := range map[string]func(*pgserver.Server) error{
		"immediate shutdown": (*pgserver.Server).Kill,
		"kill -9":            func(s *pgserver.Server) error { return syscall.Kill(s.PID(), syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, folder(t))
			execute(t, server.URL(), `CREATE TABLE kept AS SELECT 'here'::text AS word`)
			url := server.URL()
			require.NoError(t, server.Err())
			require.NoError(t, kill(server))
			<-server.Done()
			require.ErrorContains(t, server.Err(), "postgres.log")

			require.NoError(t, server.Restart(timeout(t)))
			require.NoError(t, server.Err())
			require.Equal(t, url, server.URL())
			require.Equal(t, "here", ask(t, url, `SELECT word FROM kept`))
		})
	}
}

func TestAFrozenServerIsStopped(t *testing.T) {
	server := start(t, folder(t))
	require.NoError(t, syscall.Kill(server.PID(), syscall.SIGSTOP))
	require.NoError(t, server.Stop(timeout(t)))
	require.False(t, running(server.PID()))
}
