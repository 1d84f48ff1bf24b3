package confine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// owing is how much longer than a request took a share stays in the slow lane after one that failed, and in the heavy
	// one after one that took long.
	owing = 10
	// long is the part of a slice after which a request took long.
	long = 20
)

// Share is one sync's part of a pool.
type Share struct {
	pool  *Pool
	owner string

	mu sync.Mutex
	// slowUntil and heavyUntil are until when all its requests go to these lanes.
	slowUntil, heavyUntil time.Time
	// wasted is the computing that brought no answer.
	wasted time.Duration
}

// Share makes a part for one sync. Owners get as many children as each other while they wait for them, however many
// syncs they have.
func (p *Pool) Share(owner string) *Share { return &Share{pool: p, owner: owner} }

// MemoryMB is what a request may take.
func (s *Share) MemoryMB() int { return s.pool.limits.MemoryMB }

// Do has a child run a task on the request, which is the parts one after the other; they must not change until it
// returns. The answer, of at most so many bytes, goes to read. What takes a child over may answer as it likes: read believes
// nothing, and an error of its ends the child. Do's error is ctx's, or a *Failure where the child died or was ended.
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
			s.took(took)
			return err
		}
		switch failure.Cause {
		case pressed:
			s.pool.metrics.slow.Inc()
			if in, cpu = slow, s.pool.limits.CPU; !s.waste(took) {
				cpu = s.pool.limits.Slice
			}
			continue
		case CPU:
			more := s.waste(cpu)
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
			s.waste(took)
		}
		s.pool.metrics.failed.WithLabelValues(string(failure.Cause)).Inc()
		return failure
	}
}

// terms are the lane and the computing of a new request.
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

// took notes how long a request had a child.
func (s *Share) took(how time.Duration) {
	if how < s.pool.limits.Slice/long {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heavyUntil = later(s.heavyUntil, time.Now().Add(owing*how))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// waste notes computing that brought no answer, and tells whether some is left.
func (s *Share) waste(much time.Duration) (left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wasted += much
	s.slowUntil = later(s.slowUntil, time.Now().Add(owing*much))
	return s.wasted < s.pool.limits.Slow
}
