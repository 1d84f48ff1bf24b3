package api

import (
	"net"
	"sync"
	"sync/atomic"
)

// bounded closes connections at once that are more than most.
func bounded(listener net.Listener, most int) net.Listener {
	return &boundedListener{Listener: listener, most: int64(most)}
}

type boundedListener struct {
	net.Listener
	open atomic.Int64
	most int64
}

// Accept is part of net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &countedConn{Conn: conn, done: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = conn.Close()
	}
}

type countedConn struct {
	net.Conn
	done func()
}

// Close is part of net.Conn.
func (c *countedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}
