//go:build !linux

package confine

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// attributes cannot bind a child's life to ours on these systems: the child checks for its parent itself.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// yieldCPU does nothing here, because these systems have one priority for a whole process: dropRights lowers it.
func yieldCPU() {}

// closeOnExec closes, in children, the files that a shell or a supervisor left open here: Go never passes on its own.
func closeOnExec() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// ourselves is this program's file.
func ourselves() (string, error) { return os.Executable() }

// dropRights gives up all rights that a child does not need, and names the limits that are in force. These kernels do not enforce
// RLIMIT_DATA or RLIMIT_AS: only the watch bounds memory.
func dropRights(int64) (holds string, err error) {
	// The runtime opens its poller at the first timer; after the limits are set it could not.
	time.Sleep(time.Nanosecond)
	if nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil { // below the service's priority
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, min(nice+10, 19))
	}
	for _, resource := range []int{syscall.RLIMIT_CORE, syscall.RLIMIT_FSIZE, syscall.RLIMIT_NOFILE} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{}); err != nil {
			return "", fmt.Errorf("set the limit %d to 0: %w", resource, err)
		}
	}
	return "rlimit_nofile, watch", nil
}
