package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/echomind/sync/testonly/faultproxy"
)

const (
	restartPause = 500 * time.Millisecond
	termTimeout  = 40 * time.Second
	readyTimeout = 2 * time.Second
	stopPoll     = 20 * time.Millisecond
)

// Process is one running program. Whatever ends it, it is started again, as a cluster would, until it is stopped.
type Process struct {
	Name string
	// Postgres and NATS stand between the program and its servers; there is one for each nats-server.
	Postgres *faultproxy.Proxy
	NATS     []*faultproxy.Proxy
	// HTTP is where /readyz and /metrics are.
	HTTP string
	// API is where the API is served; empty = it is another program.
	API string

	path string
	env  []string
	log  io.Writer

	mu      sync.Mutex
	handle  *os.Process
	stopped bool
	// supervised: somebody waits for its end, and starts it again.
	supervised bool
	// expected says that its end was asked for.
	expected bool
	started  time.Time
	ends     []string // ends that nobody asked for

	supervising sync.WaitGroup
}

// run keeps the program running until it is stopped. Faults that overlap may ask for it twice.
func (p *Process) run(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = false
	if p.supervised {
		return
	}
	p.supervised = true
	p.supervising.Go(func() {
		for p.goesOn(ctx) {
			err := p.once()
			p.note(err)
			select {
			case <-ctx.Done():
			case <-time.After(restartPause + rand.N(restartPause)):
			}
		}
	})
}

// goesOn says whether the program is started again. Where it is not, nobody keeps it any more.
func (p *Process) goesOn(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.supervised = ctx.Err() == nil && !p.stopped
	return p.supervised
}

// once starts the program and waits for its end. The thread that starts it waits for it: its end would be taken for
// the harness's own death, after which nothing may be left running.
func (p *Process) once() error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(context.Background(), p.path)
		cmd.Env, cmd.Stdout, cmd.Stderr = p.env, p.log, p.log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		p.mu.Lock()
		err := cmd.Start()
		p.handle, p.started = cmd.Process, time.Now()
		p.mu.Unlock()
		if err == nil {
			err = cmd.Wait()
		}
		done <- err
	}()
	return <-done
}

// note remembers an end that the harness has not asked for. A SIGKILL always is its own doing.
func (p *Process) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle = nil
	var exit *exec.ExitError
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if !p.expected && !killed {
		p.ends = append(p.ends, fmt.Sprintf("%s ended by itself after %s: %v", p.Name, time.Since(p.started).Round(time.Second), err))
	}
	p.expected = false
}

// Ends are the program's ends that nobody asked for.
func (p *Process) Ends() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.ends...)
}

// PID is the process that runs now; 0 = none.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handle == nil {
		return 0
	}
	return p.handle.Pid
}

func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handle != nil {
		p.expected = p.expected || s == syscall.SIGTERM
		_ = p.handle.Signal(s)
	}
}

// Kill ends the program without a word; it is started again.
func (p *Process) Kill() { p.signal(syscall.SIGKILL) }

// Terminate asks the program to stop cleanly; it is started again.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// Freeze stops the program where it stands.
func (p *Process) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

// Stop ends the program for good: cleanly within the time that its grace allows, else by force, which is an end that
// nobody asked for. It does not wait for one that somebody starts again meanwhile.
func (p *Process) Stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.Thaw()
	p.Terminate()
	for until, forced := time.Now().Add(termTimeout), false; p.isStopping(); time.Sleep(stopPoll) {
		if !forced && time.Now().After(until) {
			forced = true
			p.mu.Lock()
			p.ends = append(p.ends, fmt.Sprintf("%s did not stop within %s of SIGTERM", p.Name, termTimeout))
			p.mu.Unlock()
			p.Kill()
		}
	}
}

func (p *Process) isStopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.supervised && p.stopped
}

// Start runs a stopped program again.
func (p *Process) Start(ctx context.Context) { p.run(ctx) }

// Ready returns the status and the text of /readyz.
func (p *Process) Ready(ctx context.Context) (ready bool, says string) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTP+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return false, err.Error()
	}
	return response.StatusCode == http.StatusOK, string(text)
}

// Heal takes back whatever was done to the program and its connections.
func (p *Process) Heal() {
	p.Postgres.Heal()
	for _, way := range p.NATS {
		way.Heal()
	}
	p.Thaw()
}
