package api

import (
	"context"
	"sync"
	"time"

	"github.com/echomind/sync/services/api/internal/problem"
)

// placeTimeout bounds the wait for a place: what a search has, less what it needs itself.
const placeTimeout = 4 * time.Second

// searchPlaces bound how many searches are under way, as each takes a connection for long, and how many of these are one user's.
type searchPlaces struct {
	all chan struct{}
	// most is how many one user has.
	most  int
	mutex sync.Mutex
	users map[int32]*userPlaces
}

type userPlaces struct {
	held chan struct{}
	// asked is how many searches have a place, or wait for one.
	asked int
}

func newSearchPlaces(all int) *searchPlaces {
	return &searchPlaces{all: make(chan struct{}, all), most: max(1, all/2), users: map[int32]*userPlaces{}}
}

// begin waits for a place: first among the searches of the same user, so that these do not stand before those of others.
func (p *searchPlaces) begin(ctx context.Context, user int32) (done func(), err error) {
	late := time.NewTimer(placeTimeout)
	defer late.Stop()
	wait := func(places chan struct{}) error {
		select {
		case places <- struct{}{}:
			return nil
		case <-late.C:
			return problem.ManySearches()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	own, leave := p.of(user)
	if err := wait(own); err != nil {
		leave()
		return nil, err
	}
	if err := wait(p.all); err != nil {
		<-own
		leave()
		return nil, err
	}
	return func() { <-p.all; <-own; leave() }, nil
}

func (p *searchPlaces) of(user int32) (held chan struct{}, leave func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	u := p.users[user]
	if u == nil {
		u = &userPlaces{held: make(chan struct{}, p.most)}
		p.users[user] = u
	}
	u.asked++
	return u.held, func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if u.asked--; u.asked == 0 {
			delete(p.users, user)
		}
	}
}
