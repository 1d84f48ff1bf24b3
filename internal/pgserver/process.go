package pgserver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child process.
type process struct {
	handle *os.Process
	// done is closed when it has ended; then err, how it ended, may be read.
	done chan struct{}
	err  error
}

// spawn starts cmd, in a goroutine that keeps its thread until the process has ended: the kernel takes the end of the forking
// thread for the parent's death, and Go ends idle threads.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.handle = cmd.Process
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// A server is ended in steps, each harder than the one before. An immediate shutdown loses no commit: the next start replays
// the log. (Its five seconds for the backends are Postgres's own.)
var steps = []struct {
	name   string
	signal syscall.Signal
	wait   time.Duration
}{
	{"fast shutdown", syscall.SIGINT, 15 * time.Second},
	{"immediate shutdown", syscall.SIGQUIT, 8 * time.Second},
	{"kill", syscall.SIGKILL, 5 * time.Second},
}

// end stops a server by its handle, also where another process is its parent; gone reports its end within the context. The end
// of ctx cuts the first step short, never the others: no server is left behind. The error names the last step's deadline.
func end(ctx context.Context, log *slog.Logger, handle *os.Process, gone func(context.Context) bool) error {
	for i, step := range steps {
		base := context.WithoutCancel(ctx)
		if i == 0 {
			base = ctx
		}
		wait, cancel := context.WithTimeout(base, step.wait)
		// A frozen process takes no signal but SIGKILL until it is resumed.
		_ = handle.Signal(step.signal)
		_ = handle.Signal(syscall.SIGCONT)
		ended := gone(wait)
		cancel()
		if ended {
			return nil
		}
		log.Warn("Postgres did not stop in time; a harder stop follows, and the next start will replay its log",
			"step", step.name, "pid", handle.Pid)
	}
	last := steps[len(steps)-1]
	return fmt.Errorf("pgserver.stop: process %d did not end within %s of its kill", handle.Pid, last.wait)
}

// ended waits for the end of our child process.
func (p *process) ended(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	default:
	}
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}
