// Package faultproxy stands between a program and a server and does to their connections what networks do: it delays,
// it goes silent in one direction or both, and it resets in the middle of a message. Tests and the fault harness use it.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	blockSize   = 32 << 10
)

// Direction is one way through the proxy.
type Direction int

// The two directions.
const (
	ToServer Direction = iota
	ToClient
)

// Proxy passes TCP connections on to one server. Its methods are safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	links    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	open    map[*link]struct{}
	refuses bool
	latency time.Duration
	// silent is closed when a direction speaks again; nil while it does.
	silent [2]chan struct{}
	// cutAfter resets the connection that passes so many bytes more, in either direction; 0 = none.
	cutAfter int
	// withhold is asked of every block that goes to the server; nil = none is.
	withhold func(client net.Conn, block []byte) bool
}

// Start listens on a free port of 127.0.0.1 and passes connections on to target, host:port.
func Start(target string) (*Proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", target, err)
	}
	p := &Proxy{target: target, listener: listener, open: map[*link]struct{}{}}
	p.links.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL is a server's URL with the proxy's address in the place of the server's.
func (p *Proxy) URL(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("a server's URL cannot be read") // it may carry a password
	}
	u.Host = p.Addr()
	return u.String(), nil
}

// Delay makes every block of bytes late by d, 0 = none.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

// Silence holds back whatever goes the given ways, on connections old and new, as a network does that loses packets:
// nothing is closed, and nothing is lost once Speak is called.
func (p *Proxy) Silence(ways ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, way := range ways {
		if p.silent[way] == nil {
			p.silent[way] = make(chan struct{})
		}
	}
}

// Speak ends every Silence.
func (p *Proxy) Speak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.speak()
}

// Strand makes the connections that are open now silent for ever, both ways, as a failover does whose successor has never
// heard of them. New ones pass.
func (p *Proxy) Strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		if l.stranded == nil {
			l.stranded = make(chan struct{})
		}
	}
}

func (p *Proxy) speak() {
	for way, silent := range p.silent {
		if silent != nil {
			close(silent)
			p.silent[way] = nil
		}
	}
}

// Refuse resets new connections at once while it is on.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = on
}

// Cut resets every open connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		l.reset()
	}
}

// CutAfter resets the next connection that passes so many bytes, in the middle of whatever it says.
func (p *Proxy) CutAfter(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAfter = bytes
}

// Withhold has a function look at every block that goes to the server. The first block for which it says true still
// passes; after it nothing of the server comes back on that connection: the client learns nothing until that connection is closed.
func (p *Proxy) Withhold(after func(client net.Conn, block []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withhold = after
}

// Heal takes back every fault; connections that were reset stay so.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.speak()
	p.latency, p.refuses, p.cutAfter, p.withhold = 0, false, 0, nil
}

// Close ends the proxy and its connections. It may be called again.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.mu.Lock()
	p.closed = true
	p.speak()
	for l := range p.open {
		l.reset()
	}
	p.mu.Unlock()
	p.links.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.links.Go(func() { p.pass(client.(*net.TCPConn)) })
	}
}

// pass joins a client with the server until either ends.
func (p *Proxy) pass(client *net.TCPConn) {
	l := &link{client: client}
	defer l.close()
	if !p.enter(l) {
		l.reset()
		return
	}
	defer p.leave(l)
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		l.reset()
		return
	}
	if !p.join(l, server.(*net.TCPConn)) {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { p.copy(l, ToServer) })
	ways.Go(func() { p.copy(l, ToClient) })
	ways.Wait()
}

func (p *Proxy) enter(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuses {
		return false
	}
	p.open[l] = struct{}{}
	return true
}

// join keeps the server's end where the proxy was not closed, nor the client's end reset, while it was dialled.
func (p *Proxy) join(l *link, server *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = server
	return !p.closed && !l.isReset
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l)
}

// copy passes one direction on, block by block, under whatever the conditions are at each.
func (p *Proxy) copy(l *link, way Direction) {
	from, to := l.client, l.server
	if way == ToClient {
		from, to = l.server, l.client
	}
	defer l.close()
	block := make([]byte, blockSize)
	for {
		n, err := from.Read(block)
		if err != nil {
			return
		}
		pass := p.weather(l, way, n)
		if p.isWithheld(l, way, block[:n]) {
			continue
		}
		if _, err := to.Write(block[:pass]); err != nil {
			return
		}
		if pass < n {
			p.mu.Lock()
			l.reset()
			p.mu.Unlock()
			return
		}
	}
}

// weather waits as long as a block has to and returns how much of it may pass.
func (p *Proxy) weather(l *link, way Direction, n int) int {
	p.mu.Lock()
	latency := p.latency
	p.mu.Unlock()
	time.Sleep(latency)
	p.mu.Lock()
	for silent := p.silence(l, way); silent != nil; silent = p.silence(l, way) {
		p.mu.Unlock()
		<-silent
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	switch {
	case l.isReset:
		return 0
	case p.cutAfter == 0:
		return n
	case p.cutAfter > n:
		p.cutAfter -= n
		return n
	}
	pass := p.cutAfter - 1
	p.cutAfter = 0
	return pass
}

// isWithheld says whether a block on its way to the client is kept from it.
func (p *Proxy) isWithheld(l *link, way Direction, block []byte) bool {
	p.mu.Lock()
	after := p.withhold
	p.mu.Unlock()
	if way == ToServer {
		if after != nil && after(l.client, block) {
			l.withheld.Store(true)
		}
		return false
	}
	return l.withheld.Load()
}

// silence is what a block waits for; nil = nothing.
func (p *Proxy) silence(l *link, way Direction) chan struct{} {
	if l.stranded != nil && !l.isReset {
		return l.stranded
	}
	return p.silent[way]
}

// link is one connection through the proxy.
type link struct {
	client, server *net.TCPConn
	isReset        bool
	withheld       atomic.Bool
	stranded       chan struct{} // closed by its reset; nil = the proxy's weather is the link's
}

// reset ends both ends with a RST, as a host does that has lost its memory. The proxy's lock is held.
func (l *link) reset() {
	if l.stranded != nil && !l.isReset {
		close(l.stranded)
	}
	l.isReset = true
	for _, conn := range []*net.TCPConn{l.client, l.server} {
		if conn != nil {
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}
