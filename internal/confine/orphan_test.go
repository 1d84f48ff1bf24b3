package confine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// parentName is the first argument of a test binary that runs as a parent.
const parentName = "echomind-test-parent"

// beParent turns a test binary into the parent of a working and an idle child, and prints their pids.
func beParent() {
	if len(os.Args) != 1 || os.Args[0] != parentName {
		return
	}
	pool, err := New(context.Background(), 2, Limits{MemoryMB: 64}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		panic(err)
	}
	busy, err := start(context.Background(), pool.limits)
	if err != nil {
		panic(err)
	}
	if err := (request{task: "spin", cpu: time.Minute}).write(busy.in); err != nil {
		panic(err)
	}
	idle := pool.pop()
	fmt.Println(busy.cmd.Process.Pid, idle.cmd.Process.Pid)
	select {}
}

// The parent is started with an open file, as a shell leaves some open.
func TestChildrenHaveNoFileOfTheirParents(t *testing.T) {
	t.Parallel()
	left, err := os.Open(os.DevNull) // the runtime opens others: a poller, and the container's CPU limit
	require.NoError(t, err)
	defer left.Close()
	for _, pid := range newParent(t, left, left) {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		require.NoError(t, err)
		for _, fd := range open {
			at, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
			require.NotEqual(t, os.DevNull, at, "descriptor %s", fd.Name())
		}
	}
}

// newParent starts a parent with these open files, and returns its children.
func newParent(t *testing.T, files ...*os.File) (children []int) {
	program, err := os.Executable()
	require.NoError(t, err)
	parent := exec.CommandContext(t.Context(), program)
	parent.Args, parent.ExtraFiles = []string{parentName}, files
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		children = append(children, pid)
	}
	return children
}

func TestChildrenEndWithAParentThatIsKilled(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	parent := exec.CommandContext(t.Context(), program)
	parent.Args = []string{parentName}
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return isGone(pid) }, time.Minute, 10*time.Millisecond, "child %d lives on", pid)
	}
}

// isGone tells whether a process has ended, also where its parent has not asked for its exit code.
func isGone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
