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

	"github.com/echomind/sync/testonly/faultproxy"
)

// proxy stands between a worker and Postgres. Once armed, it passes the next Bind message that names a run on, keeps
// Postgres's answer to itself, and cuts the connection when the test says so: a commit of unknown outcome. A heartbeat names all
// runs, and is none of these.
type proxy struct {
	url     string
	armed   atomic.Pointer[uuid.UUID]
	swallow chan net.Conn // the connection whose answer is withheld

	mu    sync.Mutex
	beats map[net.Conn]bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	way, err := faultproxy.Start(u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, way.Close()) })
	p := &proxy{swallow: make(chan net.Conn, 1), beats: map[net.Conn]bool{}}
	p.url, err = way.URL(target)
	require.NoError(t, err)
	way.Withhold(p.names)
	return p
}

func (p *proxy) arm(run uuid.UUID) { p.armed.Store(&run) }

// names says whether a message names the run that is waited for: alone, or among others.
func (p *proxy) names(client net.Conn, message []byte) bool {
	p.mu.Lock()
	p.beats[client] = p.beats[client] || bytes.Contains(message, []byte("moves.heartbeat"))
	beats := p.beats[client]
	p.mu.Unlock()
	const bind = 'B'
	run := p.armed.Load()
	if run == nil || beats || message[0] != bind || !bytes.Contains(message, run[:]) && !bytes.Contains(message, []byte(run.String())) ||
		!p.armed.CompareAndSwap(run, nil) {
		return false
	}
	p.swallow <- client
	return true
}
