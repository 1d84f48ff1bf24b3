package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	serverStartTimeout = 30 * time.Second
	serverPoll         = 50 * time.Millisecond
)

// server is a process that others are served by. It runs until it is killed; its killer starts it again.
type server struct {
	name, path string
	args, env  []string
	log        io.Writer
	// dir is where it works, and owner whose it is; empty and nil = as the harness.
	dir   string
	owner *syscall.Credential

	mu      sync.Mutex
	process *os.Process
	gone    chan struct{}
}

// start starts the server and returns when it answers.
func (s *server) start(ctx context.Context, answers func(context.Context) error) error {
	if err := s.spawn(); err != nil {
		return err
	}
	return s.await(ctx, answers)
}

// await returns when the server answers.
func (s *server) await(ctx context.Context, answers func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, serverStartTimeout,
		fmt.Errorf("world.%s_ready: no answer within %s", s.name, serverStartTimeout))
	defer cancel()
	for {
		err := answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(serverPoll):
		}
	}
}

func (s *server) spawn() error {
	started, gone := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // its end would be taken for the harness's death
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(context.Background(), s.path, s.args...)
		cmd.Env = append(os.Environ(), s.env...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, s.log, s.log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: s.owner}
		err := cmd.Start()
		s.mu.Lock()
		s.process, s.gone = cmd.Process, gone
		s.mu.Unlock()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(gone)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	return nil
}

func (s *server) signal(sig syscall.Signal) (gone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil { // it was never started
		never := make(chan struct{})
		close(never)
		return never
	}
	_ = s.process.Signal(sig)
	return s.gone
}

// Kill ends the server without a word.
func (s *server) Kill() { <-s.signal(syscall.SIGKILL) }

// Freeze stops the server where it stands: it takes connections and never answers.
func (s *server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (s *server) Thaw() { s.signal(syscall.SIGCONT) }
