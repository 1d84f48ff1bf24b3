package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/devstack/loopback"
)

const (
	natsStartTimeout = 30 * time.Second
	natsPoll         = 50 * time.Millisecond
)

// NATS is a nats-server in a process of its own.
type NATS struct {
	path, dir string
	port      int
	log       io.Writer

	mu      sync.Mutex
	process *os.Process
	gone    chan struct{}
}

func newNATS(path, dir string, log io.Writer) (*NATS, error) {
	port, err := loopback.Port(0)
	if err != nil {
		return nil, fmt.Errorf("find a port for nats-server: %w", err)
	}
	return &NATS{path: path, dir: dir, port: port, log: log}, nil
}

// Addr is where the server listens, host:port.
func (n *NATS) Addr() string { return loopback.Address(n.port) }

// URL is how to connect without a proxy.
func (n *NATS) URL() string { return "nats://" + n.Addr() }

// Start starts the server and returns when JetStream answers.
func (n *NATS) Start(ctx context.Context) error {
	if err := n.spawn(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, natsStartTimeout,
		fmt.Errorf("world.nats_ready: no answer within %s", natsStartTimeout))
	defer cancel()
	for {
		err := n.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(natsPoll):
		}
	}
}

func (n *NATS) answers(ctx context.Context) error {
	conn, err := nats.Connect(n.URL(), nats.Timeout(time.Second))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}

func (n *NATS) spawn() error {
	started, gone := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // its end would be taken for the harness's death
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(context.Background(), n.path, "-js", "-sd", n.dir, "-a", loopback.Host, "-p", strconv.Itoa(n.port))
		cmd.Stdout, cmd.Stderr = n.log, n.log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		err := cmd.Start()
		n.mu.Lock()
		n.process, n.gone = cmd.Process, gone
		n.mu.Unlock()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(gone)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	return nil
}

// Kill ends the server without a word.
func (n *NATS) Kill() {
	n.mu.Lock()
	process, gone := n.process, n.gone
	n.mu.Unlock()
	_ = process.Kill()
	<-gone
}

// Wipe removes everything that a killed server has stored.
func (n *NATS) Wipe() error {
	if err := os.RemoveAll(filepath.Join(n.dir, "jetstream")); err != nil {
		return fmt.Errorf("wipe the streams: %w", err)
	}
	return nil
}
