package postgres

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// pingTimeout bounds the check whether an idle connection still works. Without it each dead connection of a pool would cost
	// a call its whole deadline.
	pingTimeout = 2 * time.Second
	// partingTimeout bounds each step of closing a connection whose query was abandoned: the request to cancel the query, and
	// the goodbye. The driver takes 15 s for both; meanwhile the connection keeps its place in the pool, and the pool cannot be
	// closed.
	partingTimeout = time.Second
)

// keepAlive has the kernel detect a dead server on an idle connection within 11 s.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// bound gives a connection a line of its own.
func bound(_ context.Context, cfg *pgx.ConnConfig) error {
	l := &line{}
	cfg.DialFunc, cfg.AfterNetConnect = l.dial, l.connected
	return nil
}

// line opens the socket of one connection, and later, where a query is abandoned, the socket of the request to cancel it.
type line struct{ isConnected atomic.Bool }

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	cancels := l.isConnected.Load()
	if cancels {
		dialer.Timeout = partingTimeout
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if cancels {
		err = conn.SetDeadline(time.Now().Add(partingTimeout))
	}
	return socket{conn}, err
}

func (l *line) connected(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
	l.isConnected.Store(true)
	return conn, nil
}

// socket shortens the deadlines that the driver sets: the end of a call's context means now, and the close of a connection does
// not wait 15 s.
type socket struct{ net.Conn }

func (s socket) SetDeadline(t time.Time) error {
	if !t.IsZero() && time.Until(t) > partingTimeout {
		t = time.Now().Add(partingTimeout)
	}
	return s.Conn.SetDeadline(t)
}
