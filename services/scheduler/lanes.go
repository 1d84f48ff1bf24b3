package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// mostBatches is how many batches, of all types, are claimed and not yet published at once: two of a type, so that four types whose
// publishing is slow hold up no fifth. With more types they take turns, batch by batch.
const mostBatches = 8

// lanes claim and publish what is due, each type in a lane of its own: no type waits for another whose turn somebody holds,
// or whose configurations are large.
type lanes struct {
	scheduler *Scheduler
	places    *semaphore.Weighted // one for each batch
	group     sync.WaitGroup
	ended     chan struct{} // says that a lane has ended

	mu       sync.Mutex
	busy     map[string]*lane
	said     outcomeOfLanes
	promised int           // room in the stream that batches have taken which are not published
	given    int           // how much room was ever taken
	back     chan struct{} // closed when some is given back
}

// lane is a type at work.
type lane struct {
	of    dbgen.DueTypesRow
	again bool // asked for while it was at work
}

// outcomeOfLanes is what has come of the lanes that have ended since it was last asked for.
type outcomeOfLanes struct {
	// again is after how long to look again because something stayed due that could not be claimed, 0 = not at all: the cap of its
	// type is full, somebody holds its row, or its owner's turn has not come.
	again   time.Duration
	problem error
}

func newLanes(s *Scheduler) *lanes {
	return &lanes{scheduler: s, places: semaphore.NewWeighted(mostBatches), ended: make(chan struct{}, 1), busy: map[string]*lane{}, back: make(chan struct{})}
}

// look asks which of some types have something due, nil = of all, and sends each on its way. It waits for none.
func (l *lanes) look(ctx context.Context, only []string) error {
	s := l.scheduler
	s.metrics.ticks.Inc()
	if s.config.CatchUpWindow > 0 && !s.outage.known() {
		now, err := deadline.Get(ctx, "scheduler.now", queryTimeout, s.queries.Now)
		if err != nil {
			s.metrics.tickErrors.Inc()
			return fmt.Errorf("ask for the time: %w", err)
		}
		s.outage.since(now)
	}
	if only == nil {
		if again := s.releaseWaiting(ctx); again > 0 {
			l.mu.Lock()
			l.said.again = sooner(l.said.again, again)
			l.mu.Unlock()
			signal(l.ended)
		}
	}
	types, err := deadline.Get(ctx, "scheduler.due_types", queryTimeout,
		func(ctx context.Context) ([]dbgen.DueTypesRow, error) {
			return s.queries.DueTypes(ctx, dbgen.DueTypesParams{Only: only})
		})
	if err != nil {
		s.metrics.tickErrors.Inc()
		return fmt.Errorf("ask what is due: %w", err)
	}
	for _, t := range types {
		l.start(ctx, t)
	}
	return nil
}

func (l *lanes) start(ctx context.Context, t dbgen.DueTypesRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.busy[t.Name]; at != nil {
		at.of, at.again = t, true
		return
	}
	at := &lane{of: t}
	l.busy[t.Name] = at
	l.group.Go(func() {
		for more := true; more; {
			began := time.Now()
			again, err := l.empty(ctx, at)
			l.scheduler.metrics.ticked(ctx, began, err)
			more = l.goesOn(ctx, at, again, err)
		}
		signal(l.ended)
	})
}

// goesOn writes down what has come of a lane, and says whether it was asked for again meanwhile.
func (l *lanes) goesOn(ctx context.Context, at *lane, again time.Duration, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.again && err == nil && ctx.Err() == nil {
		at.again = false
		return true
	}
	delete(l.busy, at.of.Name)
	l.said.again = sooner(l.said.again, again)
	l.said.problem = errors.Join(l.said.problem, err)
	return false
}

// outcome is what has come of the lanes since it was last asked for.
func (l *lanes) outcome() (o outcomeOfLanes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, l.said = l.said, outcomeOfLanes{}
	return o
}

// wait returns when no lane is at work.
func (l *lanes) wait() { l.group.Wait() }

// atWork is how many lanes are.
func (l *lanes) atWork() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.busy)
}

// sooner is the shorter of two pauses; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// empty claims and publishes a type batch by batch until nothing of it can be claimed, or the stream takes no more.
func (l *lanes) empty(ctx context.Context, at *lane) (again time.Duration, err error) {
	s := l.scheduler
	pipe := &pipeline{}
	defer pipe.wait()
	for ctx.Err() == nil {
		l.mu.Lock()
		t := at.of
		l.mu.Unlock()
		s.log.Debug("looking for what is due", "event", telemetry.Checking, "type", t.Name)
		limit := min(s.capOf(t), math.MaxInt32)
		may, err := s.mayClaim(ctx, t.Name, limit)
		if err != nil || !may {
			return pollEvery, err
		}
		n, room, err := l.batch(ctx, pipe, t.Name, limit)
		switch {
		case room == 0: // another lane may have found room meanwhile
			return probeEvery, err
		case n > 0 && (s.dispatcher.away.Load() || s.dispatcher.refusedOf(t.Name) > 0):
			return pollEvery, err
		case n > 0:
			s.turns.found(t.Name)
		case limit > 0 && err == nil && s.turnsOn(ctx, t.Name):
			return turnEvery, nil
		default:
			return pollEvery, err
		}
	}
	return 0, nil
}

func (s *Scheduler) mayClaim(ctx context.Context, kind string, limit int) (bool, error) {
	may, err := deadline.Get(ctx, "scheduler.may_claim", queryTimeout, func(ctx context.Context) (bool, error) {
		return s.queries.MayClaim(ctx, dbgen.MayClaimParams{Type: kind, Cap: int32(limit)})
	})
	return may, wrap("ask what may be claimed", err)
}

// batch claims one batch, of at most what the stream takes, and hands it on to be published. It keeps its place and its room until it is published.
func (l *lanes) batch(ctx context.Context, pipe *pipeline, kind string, limit int) (n, room int, err error) {
	room, leave, done := l.take(ctx, kind)
	if room == 0 {
		return 0, 0, nil
	}
	s := l.scheduler
	batch, err := s.Claim(ctx, kind, limit, room)
	if err != nil || len(batch) == 0 {
		done()
		return 0, room, wrap("claim connectors of type "+kind, err)
	}
	s.metrics.claimed.WithLabelValues(kind).Add(float64(len(batch)))
	failpoint.At("scheduler.claimed")
	if s.dispatcher.refusedOf(kind) > 0 { // one message, which may get no answer: others have the place meanwhile, and not its room
		leave()
	}
	pipe.send(func() {
		defer done()
		s.dispatcher.publish(ctx, batch)
	})
	return len(batch), room, nil
}

// take waits for a place and for room in the stream, and says how many messages may be sent; 0 = none, and nothing is taken. Two batches
// see the same room, so each keeps the room for its messages until they are sent. Where the room may not suffice for all, a batch takes half.
// leave gives back the place alone, done both.
func (l *lanes) take(ctx context.Context, kind string) (n int, leave, done func()) {
	if l.places.Acquire(ctx, 1) != nil {
		return 0, nil, nil
	}
	d, most := l.scheduler.dispatcher, l.scheduler.config.ClaimBatch
	for ctx.Err() == nil {
		l.mu.Lock()
		promised, given, back := l.promised, l.given, l.back
		l.mu.Unlock()
		room := d.room(ctx, kind)
		l.mu.Lock()
		// What is given back meanwhile counts as well: it may have been published behind the answer.
		free := room - promised - (l.given - given)
		if n = most; free < mostBatches*most {
			n = min((free+1)/2, most)
		}
		n = d.oneOf(kind, n)
		if n > 0 {
			l.promised, l.given = l.promised+n, l.given+n
		}
		wait := l.promised > 0
		l.mu.Unlock()
		switch {
		case n > 0:
			leave := sync.OnceFunc(func() { l.places.Release(1) })
			return n, leave, func() { l.giveBack(n); leave() }
		case room == 0:
			l.places.Release(1)
			return 0, nil, nil
		case wait:
			select {
			case <-back:
			case <-ctx.Done():
			}
		}
	}
	l.places.Release(1)
	return 0, nil, nil
}

func (l *lanes) giveBack(n int) {
	l.mu.Lock()
	l.promised -= n
	close(l.back)
	l.back = make(chan struct{})
	l.mu.Unlock()
}
