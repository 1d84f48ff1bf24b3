// Package kubetest starts a real kube-apiserver and a real etcd for tests. `make test-kube` builds both.
package kubetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// process is a server of the tests. It ends with them, whatever ends them.
type process struct {
	*exec.Cmd
	log *os.File
}

func launch(dir, name string, args ...string) (*process, error) {
	_, here, _, _ := runtime.Caller(0)
	program := filepath.Join(filepath.Dir(here), "..", "..", "..", "..", "bin", "tools", name)
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: make test-kube builds it", err)
	}
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	p := &process{exec.CommandContext(context.Background(), program, args...), log}
	p.Stdout, p.Stderr, p.Dir, p.SysProcAttr = log, log, dir, EndsWithUs()
	return p, p.Start()
}

// Kill ends the process as a crash does.
func (p *process) Kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// Signal sends the process a signal.
func (p *process) Signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// says is the end of the process's log.
func (p *process) says() string {
	text, _ := os.ReadFile(p.log.Name())
	return string(text[max(0, len(text)-2000):])
}

// FreeAddress is one that nobody listens at.
func FreeAddress() string {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // this machine has no loopback
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
