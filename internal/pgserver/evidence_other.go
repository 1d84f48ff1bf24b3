//go:build !linux

package pgserver

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const psTimeout = 5 * time.Second

// alive says whether a process runs.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// serves says whether a process is a server of the cluster, by its arguments.
func serves(pid int, cluster string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), psTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	command := strings.TrimSpace(string(out))
	// ps joins the arguments with spaces, which the cluster's path may contain too.
	return isServer(strings.Fields(command)) && strings.Contains(command+" ", " -D "+cluster+" ")
}
