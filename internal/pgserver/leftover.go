package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const leftoverPoll = 10 * time.Millisecond

// stopLeftover ends a server whose parent was killed, and removes its pid file; found says whether there was one. The file may
// be stale and its number belong to another process now, which is left alone. The file must go in any case: Postgres refuses to
// start while any process has that number, even a zombie.
func stopLeftover(ctx context.Context, log *slog.Logger, cluster string) (found bool, err error) {
	path := filepath.Join(cluster, "postmaster.pid")
	pid, found, err := readPID(path)
	if err != nil || !found {
		return found, err
	}
	// The handle is taken before the evidence, so that both are about the same process.
	handle, err := os.FindProcess(pid)
	if err != nil {
		return found, fmt.Errorf("look for process %d: %w", pid, err)
	}
	defer func() { _ = handle.Release() }()
	if alive(pid) && serves(pid, cluster) {
		log.Info("Stopping a Postgres server that was left behind", "pid", pid)
		gone := func(ctx context.Context) bool { return waitGone(ctx, pid) }
		if err := end(ctx, log, handle, gone); err != nil {
			return found, err
		}
	} else {
		log.Info("Removing a stale pid file: its process is no server of this cluster", "pid", pid)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return found, fmt.Errorf("remove the pid file: %w", err)
	}
	return found, nil
}

func waitGone(ctx context.Context, pid int) bool {
	ticker := time.NewTicker(leftoverPoll)
	defer ticker.Stop()
	for alive(pid) {
		select {
		case <-ctx.Done():
			return !alive(pid)
		case <-ticker.C:
		}
	}
	return true
}

// readPID returns the number in a postmaster.pid; found says whether there is such a file.
func readPID(path string) (pid int, found bool, err error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the pid file: %w", err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		// The server died while it wrote the file.
		return 0, true, nil
	}
	// A single-user server writes its number negated.
	return max(pid, -pid), true, nil
}

// isServerOf says whether a command line is that of a server of the cluster.
func isServerOf(cluster string, args []string) bool {
	if !isServer(args) {
		return false
	}
	for i, arg := range args {
		dir, found := strings.CutPrefix(arg, "-D")
		if dir == "" && i+1 < len(args) {
			dir = args[i+1]
		}
		if found && filepath.IsAbs(dir) && sameFolder(dir, cluster) {
			return true
		}
	}
	return false
}

func isServer(args []string) bool {
	if len(args) == 0 {
		return false
	}
	name := filepath.Base(args[0])
	return name == "postgres" || name == "postmaster"
}

func sameFolder(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
