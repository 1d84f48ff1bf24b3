//go:build !linux

package confine

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// attributes cannot tie a child's life to ours here: it looks for its parent itself.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// ourselves is this program's file.
func ourselves() (string, error) { return os.Executable() }

// giveUp gives up all that a child does not need, and says what holds it. The kernels here do not hold a program to
// RLIMIT_DATA or RLIMIT_AS: memory is the watch's alone.
func giveUp(int64) (holds string, err error) {
	// The runtime opens its poller at the first timer; afterwards it could not.
	time.Sleep(time.Nanosecond)
	for _, resource := range []int{syscall.RLIMIT_CORE, syscall.RLIMIT_FSIZE, syscall.RLIMIT_NOFILE} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{}); err != nil {
			return "", fmt.Errorf("set the limit %d to 0: %w", resource, err)
		}
	}
	return "rlimit_nofile, watch", nil
}
