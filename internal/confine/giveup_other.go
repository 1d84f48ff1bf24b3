//go:build !linux

package confine

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// attributes cannot tie a child's life to ours here: it looks for its parent itself.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// yieldCPU is for giveUp here: the thread cannot be told from its process.
func yieldCPU() {}

// closeOnExec keeps the files that a shell or a supervisor left open here from children: Go's own are never handed on.
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

// giveUp gives up all that a child does not need, and says what holds it. The kernels here do not hold a program to
// RLIMIT_DATA or RLIMIT_AS: memory is the watch's alone.
func giveUp(int64) (holds string, err error) {
	// The runtime opens its poller at the first timer; afterwards it could not.
	time.Sleep(time.Nanosecond)
	if nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil { // give way to the service and to others
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, min(nice+10, 19))
	}
	for _, resource := range []int{syscall.RLIMIT_CORE, syscall.RLIMIT_FSIZE, syscall.RLIMIT_NOFILE} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{}); err != nil {
			return "", fmt.Errorf("set the limit %d to 0: %w", resource, err)
		}
	}
	return "rlimit_nofile, watch", nil
}
