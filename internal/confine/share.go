package confine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// laneFactor is how long a share stays in the slow lane after a request that failed, and in the heavy lane after a request that
	// took long, in multiples of that request's time.
	laneFactor = 10
	// longPart is the part of a slice above which a request counts as long.
	longPart = 20
)

// Share is one sync's part of a pool.
type Share struct {
	pool  *Pool
	owner string

	mu sync.Mutex
	// slowUntil and heavyUntil are the times until which all its requests go to these lanes.
	slowUntil, heavyUntil time.Time
	// wasted is the computing time of requests without an answer.
	wasted time.Duration
}

// Share makes a share for one sync. Owners that wait for children get as many as each other, however many syncs they have.
func (p *Pool) Share(owner string) *Share { return &Share{pool: p, owner: owner} }

// MemoryMB is the memory that a request may use.
func (s *Share) MemoryMB() int { return s.pool.limits.MemoryMB }

// Do has a child run a task on the request, which is its parts joined; they must not change until Do returns. The answer, of at
// most most bytes, is given to read. A child that hostile content has taken over may answer anything: read must check all of
// it, and its error ends the child. Do's error is ctx's, or a *Failure where the child died or was ended.
func (s *Share) Do(ctx context.Context, task string, most int64, read func(answer string) error, parts ...[]byte) error {
	r := request{task: task, parts: parts, most: most, read: read}
	if err := r.check(); err != nil {
		return err
	}
	in, cpu := s.terms()
	for {
		r.cpu = cpu
		took, err := s.pool.do(ctx, s.owner, in, r)
		var failure *Failure
		if !errors.As(err, &failure) {
			s.noteTime(took)
			return err
		}
		switch failure.Cause {
		case pressed:
			s.pool.metrics.slow.Inc()
			if in, cpu = slow, s.pool.limits.CPU; !s.noteWaste(took) {
				cpu = s.pool.limits.Slice
			}
			continue
		case CPU:
			more := s.noteWaste(cpu)
			if whole := s.pool.limits.CPU; cpu < whole {
				s.pool.metrics.slow.Inc()
				if more {
					in, cpu = slow, whole
					continue
				}
				failure = &Failure{Spent, fmt.Sprintf("needs more than %s of computing, and this sync has used up the %s that it has for such documents",
					cpu, s.pool.limits.Slow)}
			}
		default:
			s.noteWaste(took)
		}
		s.pool.metrics.failed.WithLabelValues(string(failure.Cause)).Inc()
		return failure
	}
}

// terms are the lane and the computing time of a new request.
func (s *Share) terms() (lane, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case now.Before(s.slowUntil) && s.wasted < s.pool.limits.Slow:
		return slow, s.pool.limits.CPU
	case now.Before(s.slowUntil):
		return slow, s.pool.limits.Slice
	case now.Before(s.heavyUntil):
		return heavy, s.pool.limits.Slice
	}
	return fast, s.pool.limits.Slice
}

// noteTime notes how long a request had a child.
func (s *Share) noteTime(how time.Duration) {
	if how < s.pool.limits.Slice/longPart {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heavyUntil = later(s.heavyUntil, time.Now().Add(laneFactor*how))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// noteWaste notes computing time without an answer, and tells whether some is left.
func (s *Share) noteWaste(much time.Duration) (left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wasted += much
	s.slowUntil = later(s.slowUntil, time.Now().Add(laneFactor*much))
	return s.wasted < s.pool.limits.Slow
}
