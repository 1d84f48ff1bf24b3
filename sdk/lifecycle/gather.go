package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/echomind/sync/internal/postgres"
)

// gather makes one transaction of what several ask for at the same time: while a call is under way the others wait, and go together
// in the next. Who asks while nobody else does waits for nobody.
type gather[Q, A any] struct {
	// most is how many may go together.
	most int
	// alike says whether two may go together. Nil: all may.
	alike func(a, b Q) bool
	// together asks for all of them, and answers in their order; nil for one that has to be asked for alone.
	together func(ctx context.Context, asked []Q) ([]*A, error)
	alone    func(ctx context.Context, asked Q) (A, error)
	// answers asks the server something small: an error of a call for several may be one row's.
	answers func(ctx context.Context) error

	mu      sync.Mutex
	size    int  // how many go together now; 0: most
	works   bool // a goroutine works off those who wait
	waiting []*asking[Q, A]
}

// asking is one who asks, and is told once what became of it.
type asking[Q, A any] struct {
	asked Q
	told  chan told[A]
	in    *call // nil while it waits
}

// call is one call for several. It ends before its time when none of them stays for its answer.
type call struct {
	stay int
	end  context.CancelFunc
}

type told[A any] struct {
	answer *A // nil: ask alone
	err    error
}

// moment is how long one whose ctx has ended stays for the answer to a call that is under way: what is committed is told.
const moment = 500 * time.Millisecond

// ask returns when it is answered, or soon after ctx has ended. It may have been asked for all the same then.
func (g *gather[Q, A]) ask(ctx context.Context, asked Q) (answer A, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	a := &asking[Q, A]{asked: asked, told: make(chan told[A], 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, a)
	if !g.works {
		g.works = true
		go g.work() // for all of them: with nothing of this ctx
	}
	g.mu.Unlock()
	var t told[A]
	select {
	case t = <-a.told:
	case <-ctx.Done():
		if t = g.last(a); t.answer == nil {
			return answer, ctx.Err()
		}
	}
	switch {
	case t.err != nil:
		return answer, t.err
	case t.answer == nil:
		return g.alone(ctx, asked)
	}
	return *t.answer, nil
}

// work asks until nobody waits.
func (g *gather[Q, A]) work() {
	for {
		ctx, end := context.WithCancel(context.Background())
		going := g.next(end)
		if going == nil {
			end()
			return
		}
		asked := make([]Q, len(going))
		for i, a := range going {
			asked[i] = a.asked
		}
		answers, err := g.together(ctx, asked)
		g.resize(len(going), err)
		if err == nil {
			for i, a := range going {
				a.told <- told[A]{answer: answers[i]}
			}
		} else {
			g.failed(ctx, going, err)
		}
		end()
	}
}

// failed tells those of a call what to make of its error. The error of a call for several is nobody's own: a row of one of them may
// be slow, or break, so that the server is away for all of them only where it does not answer a small question either.
func (g *gather[Q, A]) failed(ctx context.Context, going []*asking[Q, A], err error) {
	tell := func(to []*asking[Q, A], t told[A]) {
		for _, a := range to {
			a.told <- t
		}
	}
	if !postgres.Unavailable(err) { // one of them was refused, or somebody holds what all need: each finds out alone
		tell(going, told[A]{})
		return
	}
	if len(going) == 1 {
		tell(going, told[A]{err: err})
		going = nil
	}
	late := errors.Is(err, context.DeadlineExceeded)
	if going == nil && !(late && g.waits()) {
		return
	}
	if g.answers(ctx) == nil {
		tell(going, told[A]{})
		return
	}
	if late && ctx.Err() == nil {
		going = append(going, g.all()...) // they have waited for as long, and would for as long again
	}
	tell(going, told[A]{err: err})
}

// resize lets half as many go together after a call for several that failed, so that it may be through in time, and the fault of one
// is fewer others' matter; and twice as many again after one that was answered.
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

// next takes the first of those who wait, and whoever may go with it, into a call. Nil: nobody waits.
func (g *gather[Q, A]) next(end context.CancelFunc) (going []*asking[Q, A]) {
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
	in := &call{stay: len(going), end: end}
	for _, a := range going {
		a.in = in
	}
	return going
}

func (g *gather[Q, A]) waits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting) > 0
}

// all takes all who wait.
func (g *gather[Q, A]) all() (waiting []*asking[Q, A]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting, g.waiting = g.waiting, nil
	return waiting
}

// last is for one whose ctx has ended: it waits no longer for its turn, and for the answer to a call that is under way a moment.
func (g *gather[Q, A]) last(a *asking[Q, A]) (t told[A]) {
	if g.withdraw(a) {
		return t
	}
	select {
	case t = <-a.told:
	case <-time.After(moment):
		if g.leave(a) {
			t = <-a.told // soon: the call ends
		}
	}
	return t
}

// withdraw says whether one still waited. It is not asked for then.
func (g *gather[Q, A]) withdraw(a *asking[Q, A]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.waiting)
	g.waiting = slices.DeleteFunc(g.waiting, func(o *asking[Q, A]) bool { return o == a })
	return len(g.waiting) < before
}

// leave is for one who does not stay for the answer. The last to leave a call ends it, and waits for its end: nothing is under way
// for somebody who has gone.
func (g *gather[Q, A]) leave(a *asking[Q, A]) (wait bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.in == nil {
		return true // it is told with those of a call before its own
	}
	if a.in.stay--; a.in.stay > 0 {
		return false
	}
	a.in.end()
	return true
}
