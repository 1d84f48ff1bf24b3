package api

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// bounded holds at most so many connections. Where there are no places left, one of the network that holds most gives way to a new one: see victim.
func bounded(listener net.Listener, most int) *boundedListener {
	return &boundedListener{Listener: listener, most: most, open: map[*heldConn]struct{}{}, held: map[string]int{}}
}

type boundedListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[*heldConn]struct{}
	held map[string]int // how many each network holds
}

// heldConn is a connection that holds a place.
type heldConn struct {
	net.Conn
	of      *boundedListener
	network string
	// isActive: a request is under way, since then; else it has been idle since then, or has sent no request yet.
	isActive bool
	since    time.Time
}

// Accept is part of net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &heldConn{Conn: conn, of: l, network: network(conn.RemoteAddr().String()), since: time.Now()}
		isTaken, victim := l.take(c)
		if victim != nil {
			_ = victim.Conn.Close()
		}
		if isTaken {
			return c, nil
		}
		_ = conn.Close()
	}
}

func (l *boundedListener) take(c *heldConn) (isTaken bool, victim *heldConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		if victim = l.victim(c.network); victim == nil {
			return false, nil
		}
		l.forget(victim)
	}
	l.open[c] = struct{}{}
	l.held[c.network]++
	return true, victim
}

// victim is who gives way to a new connection: of the network that holds most, the one that has been without a request for longest. Where that network has a request
// under way on each, it is the oldest of these, if it holds more than twice as many as the newcomer's would.
func (l *boundedListener) victim(newcomer string) *heldConn {
	var most string
	for name, n := range l.held {
		if n > l.held[most] {
			most = name
		}
	}
	var idle, oldest *heldConn
	for c := range l.open {
		if c.network != most {
			continue
		}
		if oldest == nil || c.since.Before(oldest.since) {
			oldest = c
		}
		if !c.isActive && (idle == nil || c.since.Before(idle.since)) {
			idle = c
		}
	}
	switch {
	case idle != nil:
		return idle
	case l.held[most] > 2*(l.held[newcomer]+1):
		return oldest
	}
	return nil
}

func (l *boundedListener) forget(c *heldConn) {
	if _, is := l.open[c]; !is {
		return
	}
	delete(l.open, c)
	if l.held[c.network]--; l.held[c.network] == 0 {
		delete(l.held, c.network)
	}
}

// note is for http.Server.ConnState.
func (l *boundedListener) note(conn net.Conn, state http.ConnState) {
	c, is := conn.(*heldConn)
	if !is || state == http.StateNew {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.isActive, c.since = state == http.StateActive, time.Now()
}

// Close is part of net.Conn.
func (c *heldConn) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
