package worker

import (
	"context"
	"sync"
)

// gate holds back the publishing of a worker's runs while their leases may have been lost. It starts open.
type gate struct {
	mu     sync.Mutex
	passed chan struct{} // closed while the gate is open
	shuts  map[*func()]struct{}
}

func newGate() *gate {
	g := &gate{passed: make(chan struct{}), shuts: map[*func()]struct{}{}}
	close(g.passed)
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.passed:
		if !open {
			g.passed = make(chan struct{})
			for told := range g.shuts {
				(*told)()
			}
		}
	default:
		if open {
			close(g.passed)
		}
	}
}

// whenShut calls a function each time the gate shuts, and now if it is shut, until cancel is called. It must not wait, nor ask the gate.
func (g *gate) whenShut(call func()) (cancel func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.passed:
	default:
		call()
	}
	g.shuts[&call] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.shuts, &call)
	}
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.passed:
		return true
	default:
		return false
	}
}

func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	passed := g.passed
	g.mu.Unlock()
	select {
	case <-passed:
		return ctx.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
