package lifecycle

import (
	"context"
	"slices"
	"sync"

	"github.com/echomind/sync/internal/postgres"
)

// gather makes one transaction of what several ask for at the same time: while a call is under way the others wait, and go together
// in the next. Who asks while nobody else does waits for nobody. There is no goroutine of its own: of those who ask, one leads.
type gather[Q, A any] struct {
	// most is how many go together.
	most int
	// alike says whether two may go together. Nil: all may.
	alike func(a, b Q) bool
	// together asks for all of them, and answers in their order; nil for one that has to be asked for alone.
	together func(ctx context.Context, asked []Q) ([]*A, error)
	alone    func(ctx context.Context, asked Q) (A, error)

	mu      sync.Mutex
	led     bool
	waiting []*asking[Q, A]
}

// asking is one who asks. It is told once to lead, or what became of it.
type asking[Q, A any] struct {
	asked Q
	told  chan told[A]
}

type told[A any] struct {
	answer *A // nil: ask alone
	err    error
	leads  bool
}

// ask returns when it is answered, or ctx has ended. It may have been asked for all the same then.
func (g *gather[Q, A]) ask(ctx context.Context, asked Q) (answer A, err error) {
	a := &asking[Q, A]{asked: asked, told: make(chan told[A], 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, a)
	if !g.led {
		g.led = true
		a.told <- told[A]{leads: true}
	}
	g.mu.Unlock()
	var t told[A]
	select {
	case t = <-a.told:
	case <-ctx.Done():
		g.leave(a)
		return answer, ctx.Err()
	}
	if t.leads {
		t = g.lead(ctx)
	}
	switch {
	case t.err != nil:
		return answer, t.err
	case t.answer == nil:
		return g.alone(ctx, asked)
	}
	return *t.answer, nil
}

// lead asks for the first of those who wait, and for whoever may go with it, and hands the lead on. It returns what becomes of the
// first.
func (g *gather[Q, A]) lead(ctx context.Context) told[A] {
	g.mu.Lock()
	var going []*asking[Q, A]
	g.waiting = slices.DeleteFunc(g.waiting, func(a *asking[Q, A]) bool {
		goes := len(going) == 0 || len(going) < g.most && (g.alike == nil || g.alike(going[0].asked, a.asked))
		if goes {
			going = append(going, a)
		}
		return goes
	})
	g.mu.Unlock()
	defer g.handOn()
	asked := make([]Q, len(going))
	for i, a := range going {
		asked[i] = a.asked
	}
	answers, err := g.together(ctx, asked)
	of := func(i int) told[A] {
		switch {
		case err == nil:
			return told[A]{answer: answers[i]}
		case postgres.Unavailable(err):
			return told[A]{err: err}
		}
		return told[A]{} // one of them was refused, or somebody holds what all need: each finds out alone
	}
	for i, a := range going[1:] {
		a.told <- of(i + 1)
	}
	return of(0)
}

// handOn has the next one lead.
func (g *gather[Q, A]) handOn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.led = len(g.waiting) > 0
	if g.led {
		g.waiting[0].told <- told[A]{leads: true}
	}
}

// leave takes out one who does not wait any longer.
func (g *gather[Q, A]) leave(a *asking[Q, A]) {
	g.mu.Lock()
	g.waiting = slices.DeleteFunc(g.waiting, func(o *asking[Q, A]) bool { return o == a })
	g.mu.Unlock()
	select {
	case t := <-a.told:
		if t.leads {
			g.handOn()
		}
	default:
	}
}
