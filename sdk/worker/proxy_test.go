package worker_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// proxy stands between a worker and Postgres. Once armed, it passes the next Bind message that names a run on, keeps
// Postgres's answer to itself, and cuts the connection when the test says so: a commit of unknown outcome. A heartbeat names all
// runs, and is none of these.
type proxy struct {
	url     string
	armed   atomic.Pointer[uuid.UUID]
	swallow chan net.Conn // the connection whose answer is withheld
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := u.Host
	u.Host = listener.Addr().String()
	p := &proxy{url: u.String(), swallow: make(chan net.Conn, 1)}
	var open sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.serve(client, server) })
		}
	})
	return p
}

// names says whether a message names a run: alone, or among others.
func names(message []byte, run uuid.UUID) bool {
	return bytes.Contains(message, run[:]) || bytes.Contains(message, []byte(run.String()))
}

func (p *proxy) arm(run uuid.UUID) { p.armed.Store(&run) }

func (p *proxy) serve(client net.Conn, server string) {
	defer func() { _ = client.Close() }()
	up, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	var deaf atomic.Bool
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := up.Read(buffer)
			if err != nil {
				_ = client.Close()
				return
			}
			if !deaf.Load() {
				_, _ = client.Write(buffer[:n])
			}
		}
	}()
	buffer, beats := make([]byte, 1<<16), false
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		beats = beats || bytes.Contains(buffer[:n], []byte("moves.heartbeat"))
		const bind = 'B'
		if run := p.armed.Load(); run != nil && !beats && buffer[0] == bind && names(buffer[:n], *run) &&
			p.armed.CompareAndSwap(run, nil) {
			deaf.Store(true)
			p.swallow <- client
		}
		if _, err := up.Write(buffer[:n]); err != nil {
			return
		}
	}
}
