package api

import (
	"context"
	"sync"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/api/internal/problem"
)

// shareTimeout bounds the wait for a place in a share: what a request has, less what it needs itself.
const shareTimeout = 4 * time.Second

// share bounds how many requests of a kind are under way, as each takes a connection to Postgres for long, and how many of these are one user's. The others wait
// without a connection.
type share struct {
	all chan struct{}
	// most is how many one user has.
	most int
	// full is the answer to who has waited in vain.
	full  func() *problem.Problem
	mutex sync.Mutex
	users map[int32]*userShare
}

type userShare struct {
	held chan struct{}
	// asked is how many requests have a place, or wait for one.
	asked int
}

func newShare(all int, full func() *problem.Problem) *share {
	return &share{all: make(chan struct{}, all), most: max(1, all/2), full: full, users: map[int32]*userShare{}}
}

// begin waits for a place: first among the requests of the same user, so that these do not stand before those of others.
func (s *share) begin(ctx context.Context, user int32) (done func(), err error) {
	late := time.NewTimer(deadline.Of(shareTimeout))
	defer late.Stop()
	wait := func(places chan struct{}) error {
		select {
		case places <- struct{}{}:
			return nil
		case <-late.C:
			return s.full()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	own, leave := s.of(user)
	if err := wait(own); err != nil {
		leave()
		return nil, err
	}
	if err := wait(s.all); err != nil {
		<-own
		leave()
		return nil, err
	}
	return func() { <-s.all; <-own; leave() }, nil
}

func (s *share) of(user int32) (held chan struct{}, leave func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	u := s.users[user]
	if u == nil {
		u = &userShare{held: make(chan struct{}, s.most)}
		s.users[user] = u
	}
	u.asked++
	return u.held, func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if u.asked--; u.asked == 0 {
			delete(s.users, user)
		}
	}
}
