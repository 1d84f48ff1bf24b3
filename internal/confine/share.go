package confine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// owing is for how many slices a share stays in the slow lane after one that was not enough.
const owing = 10

// Share is one sync's part of a pool.
type Share struct {
	pool  *Pool
	owner string

	mu sync.Mutex
	// owes is until when all its requests go to the slow lane.
	owes time.Time
	// wasted is the computing that brought no answer.
	wasted time.Duration
}

// Share makes a part for one sync. Owners get as many children as each other while they wait for them, however many
// syncs they have.
func (p *Pool) Share(owner string) *Share { return &Share{pool: p, owner: owner} }

// MemoryMB is what a request may take.
func (s *Share) MemoryMB() int { return s.pool.limits.MemoryMB }

// Do has a child run a task on the request, which is the parts one after the other; they must not change until it
// returns. Its error is ctx's, or a *Failure where the child died or was ended.
func (s *Share) Do(ctx context.Context, task string, parts ...[]byte) (string, error) {
	r := request{task: task, parts: parts}
	if err := r.check(); err != nil {
		return "", err
	}
	in, cpu := s.terms()
	for {
		r.cpu = cpu
		answer, err := s.pool.do(ctx, s.owner, in, r)
		var failure *Failure
		if !errors.As(err, &failure) {
			return answer, err
		}
		if failure.Cause == CPU {
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
		}
		s.pool.metrics.failed.WithLabelValues(string(failure.Cause)).Inc()
		return "", failure
	}
}

// terms are the lane and the computing of a new request.
func (s *Share) terms() (lane, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !time.Now().Before(s.owes):
		return fast, s.pool.limits.Slice
	case s.wasted < s.pool.limits.Slow:
		return slow, s.pool.limits.CPU
	}
	return slow, s.pool.limits.Slice
}

// waste notes computing that brought no answer, and tells whether some is left.
func (s *Share) waste(cpu time.Duration) (left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wasted += cpu
	s.owes = time.Now().Add(owing * s.pool.limits.Slice)
	return s.wasted < s.pool.limits.Slow
}
