package confine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
)

// idleTime is how long an idle child lives.
const idleTime = time.Minute

// pauses are between attempts to start a child.
var pauses = repeat.Pauses{First: 100 * time.Millisecond, Last: 5 * time.Second}

// Pool is a bounded number of children. It is safe for concurrent use.
type Pool struct {
	limits   Limits
	children int
	lanes    *lanes
	log      *slog.Logger
	metrics  *Metrics

	mu     sync.Mutex
	idle   []*child // the last used is the last
	reaper *time.Timer
	used   time.Time
	closed bool
}

// New makes a pool of at most so many children, and starts the first, so that a problem with children shows at once. Serve must
// have been called.
func New(ctx context.Context, children int, limits Limits, log *slog.Logger, metrics *Metrics) (*Pool, error) {
	if !served.Load() {
		return nil, errors.New("confine.Serve was not called: it must stand first in main, and in TestMain of a test")
	}
	p := &Pool{
		limits: limits.withDefaults(), children: max(children, 1), lanes: newLanes(max(children, 1)),
		log: log, metrics: metrics, used: time.Now(),
	}
	p.lanes.patience = p.limits.Slice / longPart
	p.reaper = time.AfterFunc(idleTime, p.reap)
	first, err := start(ctx, p.limits)
	if err != nil {
		p.reaper.Stop()
		return nil, fmt.Errorf("read content in child processes: %w", err)
	}
	p.metrics.alive.Inc()
	p.log.Info("content is read in child processes", "children", p.children, "memory_mb", p.limits.MemoryMB, "held_by", first.holds)
	p.putBack(first)
	return p, nil
}

// Close ends all children once they are idle.
func (p *Pool) Close() {
	p.lanes.wait()
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

// do has a child answer a request, and returns for how long the request had a child. Its error is ctx's, or a *Failure.
func (p *Pool) do(ctx context.Context, owner string, in lane, r request) (took time.Duration, err error) {
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	leave, err := p.lanes.enter(within, owner, in, func() { end(errPressed) })
	if err != nil {
		return 0, err
	}
	defer leave()
	began := time.Now()
	err = p.askChild(within, r)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(within), errPressed) {
		err = &Failure{pressed, "another owner waits"}
	}
	return time.Since(began), err
}

// errPressed ends a request so that another owner gets its place.
var errPressed = errors.New("another owner waits for the place")

// askChild sends a request to a child, and to another one where the child was killed from outside. A child whose answer is
// malformed is ended: hostile content may have taken it over.
func (p *Pool) askChild(ctx context.Context, r request) error {
	for try := 1; ; try++ {
		c, err := p.take(ctx)
		if err != nil {
			return err
		}
		answer, err := deadline.Get(ctx, "confine.read", p.limits.Wall, func(ctx context.Context) (string, error) {
			return c.ask(ctx, r)
		})
		if err == nil {
			if err = r.read(answer); err == nil {
				p.putBack(c)
				return nil
			}
			err = fmt.Errorf("%w: %w", errAnswer, err)
		}
		p.end(c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failure := c.judge(p.limits.MemoryMB, r.cpu, err)
		if failure.Cause == Killed && try == 1 {
			p.log.Warn("a child was killed from outside; what it read is read once more", "err", failure)
			continue
		}
		return failure
	}
}

// take returns an idle child, or a new one. Where none can be started it tries again: the request is not at fault.
func (p *Pool) take(ctx context.Context) (*child, error) {
	for try := range pauses.Tries(ctx) {
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
		p.log.Warn("a child cannot be started, so documents wait; it is tried again", "err", err, "pause", pauses.After(try))
	}
	return nil, ctx.Err()
}

// pop returns the idle child that was used last and is alive.
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

// putBack puts a child back among the idle ones.
func (p *Pool) putBack(c *child) {
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

// reap ends idle children when none was used for a while.
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
