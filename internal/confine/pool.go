package confine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/sdk/deadline"
)

const (
	// idleTime is how long a child that nobody needs lives on.
	idleTime = time.Minute
	// firstPause and longestPause stand between tries to start a child.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// Pool is a bounded number of children. It is safe for concurrent use.
type Pool struct {
	limits   Limits
	children int
	places   *semaphore.Weighted
	log      *slog.Logger
	metrics  *Metrics

	mu     sync.Mutex
	idle   []*child // the last used is the last
	reaper *time.Timer
	used   time.Time
	closed bool
}

// New makes a pool of at most so many children, and starts the first one, so that what keeps children from working
// shows at once. Serve must have been called.
func New(ctx context.Context, children int, limits Limits, log *slog.Logger, metrics *Metrics) (*Pool, error) {
	if !served.Load() {
		return nil, errors.New("confine.Serve was not called: it must stand first in main, and in TestMain of a test")
	}
	p := &Pool{
		limits: limits.withDefaults(), children: max(children, 1), places: semaphore.NewWeighted(int64(max(children, 1))),
		log: log, metrics: metrics, used: time.Now(),
	}
	p.reaper = time.AfterFunc(idleTime, p.reap)
	first, err := start(ctx, p.limits)
	if err != nil {
		p.reaper.Stop()
		return nil, fmt.Errorf("read content in child processes: %w", err)
	}
	p.metrics.alive.Inc()
	p.log.Info("content is read in child processes", "children", p.children, "memory_mb", p.limits.MemoryMB, "held_by", first.holds)
	p.keep(first)
	return p, nil
}

// Close ends all children, once nobody uses them any more.
func (p *Pool) Close() {
	_ = p.places.Acquire(context.Background(), int64(p.children)) // its context has no end
	defer p.places.Release(int64(p.children))
	p.mu.Lock()
	p.closed = true
	p.reaper.Stop()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		p.end(c)
	}
}

// do has a child answer a request. Its error is ctx's, or a *Failure.
func (p *Pool) do(ctx context.Context, request []byte) (string, error) {
	if err := p.places.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer p.places.Release(1)
	for try := 1; ; try++ {
		c, err := p.take(ctx)
		if err != nil {
			return "", err
		}
		answer, err := deadline.Get(ctx, "confine.read", p.limits.Wall, func(ctx context.Context) (string, error) {
			return c.ask(ctx, request)
		})
		if err == nil {
			p.keep(c)
			return answer, nil
		}
		p.end(c)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		failure := c.judge(p.limits, err)
		if failure.Cause == Killed && try == 1 {
			p.log.Warn("a child was killed from outside; what it read is read once more", "err", failure)
			continue
		}
		p.metrics.failed.WithLabelValues(string(failure.Cause)).Inc()
		return "", failure
	}
}

// take returns a child that waits, or a new one. Where none can be started it tries again: that is no fault of what
// is to be read.
func (p *Pool) take(ctx context.Context) (*child, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if c := p.pop(); c != nil {
			return c, nil
		}
		c, err := start(ctx, p.limits)
		if err == nil {
			p.metrics.alive.Inc()
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p.log.Warn("a child cannot be started, so documents wait; it is tried again", "err", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// pop is the last used child that waits and lives.
func (p *Pool) pop() *child {
	for {
		p.mu.Lock()
		if len(p.idle) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		p.mu.Unlock()
		if !c.ended() {
			return c
		}
		p.end(c)
	}
}

// keep takes a child back.
func (p *Pool) keep(c *child) {
	if c.retire {
		p.end(c)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
	p.used = time.Now()
}

func (p *Pool) end(c *child) {
	c.end()
	p.metrics.alive.Dec()
}

// reap ends the children that wait when none was used for a while.
func (p *Pool) reap() {
	p.mu.Lock()
	var idle []*child
	if time.Since(p.used) >= idleTime {
		idle, p.idle = p.idle, nil
	}
	if !p.closed {
		p.reaper.Reset(idleTime)
	}
	p.mu.Unlock()
	for _, c := range idle {
		p.end(c)
	}
}

// Share is one sync's part of a pool: it never has more than half of the children, so that others find one.
type Share struct {
	pool   *Pool
	places *semaphore.Weighted
}

// Share makes a part for one sync.
func (p *Pool) Share() *Share {
	return &Share{pool: p, places: semaphore.NewWeighted(int64(p.children+1) / 2)}
}

// MemoryMB is what a request may take.
func (s *Share) MemoryMB() int { return s.pool.limits.MemoryMB }

// Do has a child run a task on the request, which is the parts one after the other. Its error is ctx's, or a *Failure
// where the child died or was ended.
func (s *Share) Do(ctx context.Context, task string, parts ...[]byte) (string, error) {
	request, err := requestOf(task, parts)
	if err != nil {
		return "", err
	}
	if err := s.places.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer s.places.Release(1)
	return s.pool.do(ctx, request)
}
