package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopLeftover stops a server of this folder that a killed parent left behind, and removes its stale pid file. A
// process that merely has the same number is left alone.
func (s *Server) stopLeftover(ctx context.Context) error {
	pidFile := filepath.Join(s.cluster, "postmaster.pid")
	pid, err := readPID(pidFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if pid > 0 && isServerOf(pid, s.cluster) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop the PostgreSQL server %d that was left behind: %w", pid, err)
			}
			if waitGone(ctx, pid, s.cluster) {
				break
			}
		}
		if isServerOf(pid, s.cluster) {
			return fmt.Errorf("stop the PostgreSQL server %d that was left behind: it does not end", pid)
		}
	}
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a stale pid file: %w", err)
	}
	return nil
}

func readPID(file string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0, nil // torn by a crash: nobody's
	}
	return pid, nil
}

// isServerOf says whether a process is a Postgres server of this cluster, by its command line.
func isServerOf(pid int, cluster string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		// No /proc: ask ps.
		line, err = exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return false
		}
	}
	line = bytes.ReplaceAll(line, []byte{0}, []byte{' '})
	return bytes.Contains(line, []byte("postgres")) && bytes.Contains(line, []byte(cluster))
}

func waitGone(ctx context.Context, pid int, cluster string) bool {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for isServerOf(pid, cluster) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}
