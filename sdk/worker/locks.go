package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/lifecycle"
)

// Lock is a lock that a run holds. Its methods are safe for concurrent use.
type Lock struct {
	of    *locks
	key   string
	ttl   time.Duration
	epoch int64
	ctx   context.Context //nolint:containedctx // it is what the lock gives
	end   context.CancelCauseFunc
	done  chan struct{} // closed when it is given back, or gone

	mu      sync.Mutex
	expires time.Time
}

// Key is what is locked.
func (l *Lock) Key() string { return l.key }

// Epoch grows each time that the key is given to anybody. Hand it to the service or store that is used under the lock, so that it can refuse a lower number
// than it has seen: a worker that woke from a long pause does not know yet that its lock is somebody else's.
func (l *Lock) Epoch() int64 { return l.epoch }

// Holder is the try that has the lock.
func (l *Lock) Holder() lifecycle.Try { return l.of.try }

// ExpiresAt is when the lock ends if it is not renewed again, by Postgres's clock.
func (l *Lock) ExpiresAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// Context is for what is done under the lock. It ends when the lock is lost (its cause is a lifecycle.ErrLockLost, which says why) or freed, and with the
// context that Acquire was given.
func (l *Lock) Context() context.Context { return l.ctx }

// Free gives the lock back. Where Postgres does not answer at once that goes on in the background, as long as the run lasts.
func (l *Lock) Free() {
	l.end(errFreed)
	select {
	case <-l.done:
	case <-time.After(freeTimeout):
	}
}

var (
	errFreed = errors.New("the lock was given back")
	errTwice = errors.New("the run holds the lock already, or asks for it")
)

const (
	// renewals is how many fall into a lock's ttl.
	renewals = 4
	// freeTimeout bounds how long a handler's end, or Free, waits for Postgres.
	freeTimeout = 2 * time.Second
	// againWithin bounds how long a renewal that was not answered waits for the next.
	againWithin = 2 * time.Second
)

// locks are those of one run.
type locks struct {
	try       lifecycle.Try
	lifecycle *lifecycle.Lifecycle // on a connection of its own
	gate      *gate
	metrics   *metrics
	log       *slog.Logger
	ctx       context.Context //nolint:containedctx // the run's, as long as the handler has not returned
	stop      context.CancelCauseFunc

	asks atomic.Int64 // how many questions for locks there were

	mu      sync.Mutex
	claimed map[string]*Lock // nil while it is asked for
	lost    map[string]error // why each lock was lost that the run has not been given again
	used    bool
	longest time.Duration // the ttl after which nothing is held
	keepers sync.WaitGroup
}

func newLocks(
	running context.Context, try lifecycle.Try, on *lifecycle.Lifecycle, g *gate, m *metrics, log *slog.Logger,
) *locks {
	ctx, stop := context.WithCancelCause(running)
	return &locks{try: try, lifecycle: on, gate: g, metrics: m, log: log, ctx: ctx, stop: stop, claimed: map[string]*Lock{}, lost: map[string]error{}}
}

// claim keeps the run's other goroutines from asking for a key. It waits while an earlier lock on the key is given back. A handler that was told
// to end gets no lock.
func (s *locks) claim(ctx, handling context.Context, key string, ttl time.Duration) error {
	for {
		if handling.Err() != nil { // what it held is given back when it returns
			return context.Cause(handling)
		}
		before, err := s.tryClaim(key, ttl)
		if before == nil {
			return err
		}
		select {
		case <-before.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *locks) tryClaim(key string, ttl time.Duration) (before *Lock, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	before, taken := s.claimed[key]
	switch {
	case taken && (before == nil || before.ctx.Err() == nil):
		return nil, fmt.Errorf("lock %q: %w", key, errTwice)
	case taken:
		return before, nil
	}
	s.claimed[key], s.used, s.longest = nil, true, max(s.longest, ttl)
	return nil, nil
}

func (s *locks) unclaim(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claimed, key)
}

// hold keeps a lock that was given. sent is when it was asked for: its time runs from some moment after that.
func (s *locks) hold(
	ctx, handling context.Context, key string, ttl time.Duration, given lifecycle.LockAnswer, sent time.Time,
) (*Lock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	l := &Lock{of: s, key: key, ttl: ttl, epoch: given.Epoch, expires: given.ExpiresAt, done: make(chan struct{})}
	l.ctx, l.end = context.WithCancelCause(ctx)
	s.claimed[key] = l
	delete(s.lost, key)
	s.metrics.locksHeld.Inc()
	s.keepers.Go(func() { l.keep(handling, sent) })
	return l, nil
}

// keep renews a lock until it is freed or lost, or its run ends, and gives it back.
func (l *Lock) keep(handling context.Context, sent time.Time) {
	defer close(l.done)
	defer l.of.metrics.locksHeld.Dec()
	late := time.AfterFunc(time.Until(sent.Add(l.ttl)), func() {
		l.end(fmt.Errorf("%w: no renewal of %s was answered for %s", lifecycle.ErrLockLost, l.key, l.ttl))
	})
	defer late.Stop()
	defer l.of.gate.whenShut(func() {
		l.end(fmt.Errorf("%w: the run may have lost its lease", lifecycle.ErrLockLost))
	})()
	defer context.AfterFunc(handling, func() { l.end(context.Cause(handling)) })()
	next := l.ttl / renewals
	for repeat.Sleep(l.ctx, next) == nil {
		sent := time.Now()
		next = l.ttl / renewals
		until, err := deadline.Get(l.ctx, "worker.renew_lock", l.ttl/renewals, func(ctx context.Context) (time.Time, error) {
			return l.of.lifecycle.RenewLock(ctx, l.of.try, l.key, l.epoch)
		})
		switch {
		case err == nil:
			late.Reset(time.Until(sent.Add(l.ttl)))
			l.mu.Lock()
			l.expires = until
			l.mu.Unlock()
		case errors.Is(err, lifecycle.ErrLockLost):
			l.end(err)
		case l.ctx.Err() == nil:
			next = min(next/4, againWithin) // somebody holds its row for a moment, or Postgres is away
			l.of.log.Info("a lock was not renewed; it is tried again", "lock", l.key, "err", err)
		}
	}
	l.ended(handling)
}

// ended gives the lock back: it is lost, or its holder says that nothing is done under it any more. Where the handler has been told to end, close
// gives it back.
func (l *Lock) ended(handling context.Context) {
	if cause := context.Cause(l.ctx); errors.Is(cause, lifecycle.ErrLockLost) {
		l.of.mu.Lock()
		l.of.lost[l.key] = cause
		l.of.mu.Unlock()
		l.of.metrics.locksLost.Inc()
		l.of.log.Warn("a lock is lost; what is done under it is ended", "lock", l.key, "epoch", l.epoch, "err", cause)
	}
	for range pauses.Tries(l.of.ctx) {
		if l.of.ctx.Err() != nil || handling.Err() != nil {
			return
		}
		if l.of.free(func(ctx context.Context) error { return l.of.lifecycle.FreeLock(ctx, l.of.try, l.key, l.epoch) }) == nil {
			break
		}
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.claimed[l.key] == l {
		delete(l.of.claimed, l.key)
	}
}

// free asks Postgres once to give something back, also where what asked for it has ended.
func (s *locks) free(how func(context.Context) error) error {
	err := deadline.Do(context.WithoutCancel(s.ctx), "worker.free_locks", freeTimeout, how)
	if err != nil {
		s.log.Info("what the run holds of locks is not given back yet", "err", err)
	}
	return err
}

// close gives back all locks of the run, because its handler has returned, and takes no more. again goes on where Postgres has not answered:
// the locks are free when the run ends by its own word, its documents are queued, or again has an answer. The locks of a handler that has not returned
// are renewed no more, and are free when their ttl is over, however the run ends: something may still be done under them.
func (s *locks) close(returned bool) (again func(ctx context.Context)) {
	s.mu.Lock()
	used := s.used
	s.stop(errReturned)
	for _, held := range s.claimed {
		if held != nil {
			held.end(errReturned)
		}
	}
	s.mu.Unlock()
	if !used {
		return nil
	}
	s.keepers.Wait()
	if !returned {
		return nil
	}
	all := func(ctx context.Context) error { return s.lifecycle.FreeLocks(ctx, s.try) }
	if s.free(all) == nil {
		return nil
	}
	return func(ctx context.Context) {
		began := time.Now()
		for range pauses.Tries(ctx) {
			if s.free(all) == nil || time.Since(began) > s.longest {
				return
			}
		}
	}
}

// blame adds to the error of a handler why the run has lost a lock that it was not given again: what is done under a lost lock ends with an error
// that may not say so. The run is then put off from now. The locks are closed.
func (s *locks) blame(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inOrder(err) || errors.Is(err, ErrPermanent) || errors.Is(err, ErrRelist) || asPostponed(err) != nil {
		return err
	}
	if errors.Is(err, lifecycle.ErrLockLost) {
		return Postponed(leastPutOff, err)
	}
	for _, key := range slices.Sorted(maps.Keys(s.lost)) {
		return Postponed(leastPutOff, fmt.Errorf("%w: %w", s.lost[key], err))
	}
	return err
}
