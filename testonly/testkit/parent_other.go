//go:build !linux

package testkit

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const psTimeout = 5 * time.Second

// look is a process's name and the time of its start; both are empty where there is none.
func look(pid int) (name, started string) {
	ctx, cancel := context.WithTimeout(context.Background(), psTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-o", "lstart=,comm=", "-p", strconv.Itoa(pid)).Output()
	// "Mon Jan  2 15:04:05 2006 /path/to/name"
	fields := strings.Fields(string(out))
	if err != nil || len(fields) < 6 {
		return "", ""
	}
	clock := strings.NewReplacer(":", "").Replace(strings.Join(fields[1:5], ""))
	return filepath.Base(strings.Join(fields[5:], " ")), clock
}
