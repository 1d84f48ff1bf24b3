package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/lifecycle"
)

// ErrLocked is among what a LockedError wraps.
var ErrLocked = errors.New("somebody else has the lock")

// LockedError says who has a lock that a run was not given. A run whose handler returns it is put off, as with Postponed: that is no failure of its
// source. The run is put off for as long as the lock is held without a renewal; at least for ten seconds, and for a quarter of the time that
// its connector has been put off already; at most for five minutes.
type LockedError struct {
	Key string
	// Run has the lock, and is a run of Connector; both are zero where nobody has the lock and others wait for it.
	Run       uuid.UUID
	Connector int32
	// Remaining is for how long they have it without a renewal.
	Remaining time.Duration
	// Ahead is how many runs wait for it before this one; 8 stands for more.
	Ahead int
	// PutOff is for how long the connector of the run that asked has been put off; 0 where the run waited.
	PutOff time.Duration
}

// Error says what is locked, by whom and for how long.
func (e *LockedError) Error() string { return e.Key + " is " + e.why() }

func (e *LockedError) why() string {
	if e.Connector == 0 {
		return fmt.Sprintf("asked for by %d others, who come first", e.Ahead)
	}
	if e.Remaining <= 0 {
		return fmt.Sprintf("held by a transaction in Postgres, on run %s of connector %d, which has it no more", e.Run, e.Connector)
	}
	return fmt.Sprintf("locked by run %s of connector %d for another %s", e.Run, e.Connector, roughly(e.Remaining))
}

// Unwrap has ErrLocked, and the error of Postponed that puts the run off.
func (e *LockedError) Unwrap() []error {
	who := errors.New("others wait for lock " + e.Key)
	if e.Connector != 0 {
		who = fmt.Errorf("connector %d has lock %s", e.Connector, e.Key)
	}
	return []error{ErrLocked, Postponed(min(max(e.Remaining, e.PutOff/4, leastPutOff), mostPutOff), who)}
}

const (
	leastPutOff, mostPutOff = 10 * time.Second, 5 * time.Minute
	leastTTL, mostTTL       = time.Second, time.Hour
	// longestLockWait is for how long a run may wait for a lock: meanwhile it holds a slot and a place.
	longestLockWait = time.Hour
)

// roughly is a time for people.
func roughly(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return fmt.Sprintf("%d min", (d+time.Minute/2)/time.Minute)
	default:
		return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second)
	}
}

// LockOption says how a lock is asked for.
type LockOption func(*lockOptions)

type lockOptions struct{ wait time.Duration }

// WaitUpTo waits for a lock that another run has, an hour at most. First come, first served. The wait does not count as the run's work
// (Config.MaxRunMinutes), and `echomind why` shows it. The run keeps its slot meanwhile; a handler that need not keep it returns the LockedError instead.
func WaitUpTo(d time.Duration) LockOption { return func(o *lockOptions) { o.wait = d } }

// mayEnter finds a user or password in a URL; moves.acquire_lock has the same expression.
var mayEnter = regexp.MustCompile(`//[^/]*@`)

// Acquire gives the run a lock on something that there is little of, such as "ollama:global": nobody else has it until it is freed. The key has up to 128 letters, digits
// and _.:/@-, beginning with a letter or digit. Keys are shown to administrators and kept in the audit, so one with a user or password in a URL is refused. It returns a LockedError where somebody else has it, at once or after WaitUpTo.
//
// The worker renews the lock in the background, four times in its ttl, which is one second to one hour. Where the worker's machine is gone, others wait
// for one ttl. The lock is lost where no renewal is answered in time, where the run is ended from outside or may have lost its lease, and where
// a person releases it (`echomind locks release`). Then the lock's Context ends before anybody else has the lock, unless the worker stood still. The lock is freed
// by Free, at once when the handler returns, and when the worker has learned that it is lost. A run holds 16 locks at most, and each key once.
func (r *Run) Acquire(ctx context.Context, key string, ttl time.Duration, how ...LockOption) (*Lock, error) {
	var asked lockOptions
	for _, set := range how {
		set(&asked)
	}
	if mayEnter.MatchString(key) {
		return nil, errors.New("the key of a lock has a user or password in a URL: name what is locked without them")
	}
	if ttl < leastTTL || ttl > mostTTL || asked.wait < 0 || asked.wait > longestLockWait {
		return nil, fmt.Errorf("lock %q: ttl is %s, must be 1 s to 1 h; WaitUpTo is %s, must be 0 to 1 h", key, ttl, asked.wait)
	}
	if err := r.locks.claim(ctx, r.outbox.handling, key, ttl); err != nil {
		return nil, err
	}
	lock, err := r.acquire(ctx, key, ttl, asked.wait)
	if err != nil {
		r.locks.unclaim(key)
		r.metricsOfLock(err)
		return nil, err
	}
	r.locks.metrics.lockRequests.WithLabelValues("given").Inc()
	return lock, nil
}

func (r *Run) metricsOfLock(err error) {
	result := "broken_off"
	if errors.Is(err, ErrLocked) {
		result = "locked"
	}
	r.locks.metrics.lockRequests.WithLabelValues(result).Inc()
}

// acquire asks until the lock is given, or the wait is over.
func (r *Run) acquire(ctx context.Context, key string, ttl, wait time.Duration) (*Lock, error) {
	began := time.Now()
	defer r.clock.wait(began)()
	ask := r.locks.asks.Add(1)
	for {
		answer, sent, err := r.askForLock(ctx, key, ttl, wait > 0, ask)
		if err == nil && answer.Epoch != 0 {
			r.locks.metrics.lockWaits.Observe(time.Since(began).Seconds())
			lock, err := r.locks.hold(ctx, r.outbox.handling, key, ttl, answer, sent)
			if err != nil {
				_ = r.locks.free(func(ctx context.Context) error { return r.lifecycle.FreeLock(ctx, r.try, key, answer.Epoch) })
			}
			return lock, err
		}
		left := wait - time.Since(began)
		if err == nil && left > 0 {
			// A little earlier by chance, so that those who came together do not ask together.
			pause := min(answer.AskAgain, left)
			if err = repeat.Sleep(ctx, pause-time.Duration(rand.Int64N(int64(pause/8)+1))); err == nil {
				continue
			}
		}
		if err == nil {
			err = &LockedError{Key: key, Run: answer.HolderRun, Connector: answer.HolderConnector, Remaining: answer.Remaining, Ahead: answer.Ahead, PutOff: answer.PutOff}
		}
		if wait > 0 || !errors.Is(err, ErrLocked) { // it has a place, or the lock, for all that is known
			_ = r.locks.free(func(ctx context.Context) error { return r.lifecycle.FreeAsked(ctx, r.try, key, ask) })
		}
		return nil, err
	}
}

func (r *Run) askForLock(ctx context.Context, key string, ttl time.Duration, waits bool, ask int64) (answer lifecycle.LockAnswer, sent time.Time, err error) {
	err = r.Patiently(ctx, "worker.acquire_lock", func(ctx context.Context) (err error) {
		if err := r.outbox.gate.wait(ctx); err != nil { // it would be lost at once
			return err
		}
		sent = time.Now()
		answer, err = r.lifecycle.AcquireLock(ctx, r.try, key, ttl, waits, ask)
		return err
	})
	if err != nil {
		return answer, sent, fmt.Errorf("ask for lock %q: %w", key, err)
	}
	return answer, sent, nil
}
