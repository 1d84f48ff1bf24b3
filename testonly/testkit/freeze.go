package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/echomind/sync/internal/pgserver"
)

// FreezePostgres stops a server and every backend of it where they stand, until thaw or the end of the test: no connection answers,
// old or new.
func FreezePostgres(t testing.TB, server *pgserver.Server) (thaw func()) {
	t.Helper()
	stopped := []int{server.PID()}
	thaw = func() {
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // some have ended
		}
		stopped = nil
	}
	t.Cleanup(thaw)
	if err := syscall.Kill(server.PID(), syscall.SIGSTOP); err != nil { // first: from now on it makes no further backend
		t.Fatalf("freeze PostgreSQL: %v", err)
	}
	backends, err := children(t, server.PID())
	if err != nil {
		t.Fatalf("list the backends of PostgreSQL: %v", err)
	}
	for _, pid := range backends {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		stopped = append(stopped, pid)
	}
	return thaw
}

// children are the processes that a process has made: from proc(5), elsewhere from pgrep.
func children(t testing.TB, parent int) (pids []int, err error) {
	listed, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		if listed, err = exec.CommandContext(t.Context(), "pgrep", "-P", strconv.Itoa(parent)).Output(); err != nil {
			return nil, err
		}
	}
	for _, field := range strings.Fields(string(listed)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
