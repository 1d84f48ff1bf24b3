package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"
)

// patience is how long one waits behind a call that is under way before it asks alone.
const patience = 250 * time.Millisecond

// gather makes one transaction of what several ask for at the same time: while a call is under way the others wait, and go together
// in the next. A caller that asks alone does not wait, and no caller waits long for others.
type gather[Q, A any] struct {
	// most is how many may go together.
	most int
	// alike says whether two may go together. Nil: all may.
	alike func(a, b Q) bool
	// together asks for all of them, and answers in their order; a nil answer: that caller has to ask alone. It ends soon, also
	// where it has no answer. Its error is nobody's own: each of them has to be asked for alone then.
	together func(ctx context.Context, asked []Q) ([]*A, error)
	alone    func(ctx context.Context, asked Q) (A, error)

	mu      sync.Mutex
	size    int  // how many go together now; 0: most
	works   bool // a goroutine works off those who wait
	waiting []*asking[Q, A]
}

// asking is a caller that asks, and is told once what became of it.
type asking[Q, A any] struct {
	asked Q
	told  chan *A // nil: ask alone
}

// ask returns when it is answered, or soon after ctx has ended. It may have been asked for all the same then.
func (g *gather[Q, A]) ask(ctx context.Context, asked Q) (answer A, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	a := g.queue(asked)
	if together := g.answer(ctx, a); together != nil {
		return *together, nil
	}
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	return g.alone(ctx, asked)
}

func (g *gather[Q, A]) queue(asked Q) *asking[Q, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := &asking[Q, A]{asked: asked, told: make(chan *A, 1)}
	g.waiting = append(g.waiting, a)
	if !g.works {
		g.works = true
		go g.work() // for all of them: with nothing of its caller's ctx
	}
	return a
}

// answer is nil where the caller has to ask alone. The answer to a call that is under way is waited for: what it has committed
// is told.
func (g *gather[Q, A]) answer(ctx context.Context, a *asking[Q, A]) *A {
	turn := time.NewTimer(patience)
	defer turn.Stop()
	select {
	case answer := <-a.told:
		return answer
	case <-ctx.Done():
	case <-turn.C:
	}
	if g.withdraw(a) {
		return nil
	}
	return <-a.told
}

// work asks until nobody waits.
func (g *gather[Q, A]) work() {
	for {
		going := g.next()
		if going == nil {
			return
		}
		asked := make([]Q, len(going))
		for i, a := range going {
			asked[i] = a.asked
		}
		answers, err := g.together(context.Background(), asked)
		g.resize(len(going), err)
		for i, a := range going {
			if err != nil {
				a.told <- nil
				continue
			}
			a.told <- answers[i]
		}
	}
}

// resize lets half as many go together after a call for several that failed, so that the next may be through in time, and the fault
// of one is fewer others' matter; and twice as many again after one that was answered.
func (g *gather[Q, A]) resize(went int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		g.size = min(2*g.room(), g.most)
	case went > 1:
		g.size = went / 2
	}
}

// room is how many go together now. g.mu is held.
func (g *gather[Q, A]) room() int {
	if g.size == 0 {
		return g.most
	}
	return g.size
}

// next takes the first caller that waits, and all that may go with it, into a call. Nil: nobody waits.
func (g *gather[Q, A]) next() (going []*asking[Q, A]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(a *asking[Q, A]) bool {
		goes := len(going) == 0 || len(going) < g.room() && (g.alike == nil || g.alike(going[0].asked, a.asked))
		if goes {
			going = append(going, a)
		}
		return goes
	})
	g.works = len(going) > 0
	return going
}

// withdraw says whether one still waited. It goes with no call then.
func (g *gather[Q, A]) withdraw(a *asking[Q, A]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.waiting)
	g.waiting = slices.DeleteFunc(g.waiting, func(o *asking[Q, A]) bool { return o == a })
	return len(g.waiting) < before
}
