package api

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxBuckets is how many tokens the limiter remembers; those that have rested are forgotten first.
const maxBuckets = 10_000

// limiter lets each token ask so often. Each replica has its own.
type limiter struct {
	rate, burst float64
	mu          sync.Mutex
	buckets     map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

func newLimiter(rate, burst float64) *limiter {
	return &limiter{rate: rate, burst: burst, buckets: map[string]*bucket{}}
}

// take takes one request of a key's, or says how long to wait for one.
func (l *limiter) take(key string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		if len(l.buckets) >= maxBuckets {
			l.forget(now)
		}
		b = &bucket{left: l.burst, at: now}
		l.buckets[key] = b
	}
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.left, b.at = min(l.burst, b.left+passed*l.rate), now
	}
	if b.left < 1 {
		return time.Duration((1 - b.left) / l.rate * float64(time.Second))
	}
	b.left--
	return 0
}

// forget makes room: of buckets that are full again, or of all, where none is.
func (l *limiter) forget(now time.Time) {
	for key, b := range l.buckets {
		if b.left+now.Sub(b.at).Seconds()*l.rate >= l.burst {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}

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
