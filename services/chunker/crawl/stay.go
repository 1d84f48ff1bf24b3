package crawl

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/echomind/sync/internal/room"
)

// stay is the room that one visit has for its body and what is made of it. The visits of a crawl take it in the order in
// which they are settled: one that has room never waits for another that has none. (A later visit that took the last of it
// would keep it until the earlier one, which waits for it, is settled.)
type stay struct {
	before atomic.Pointer[stay] // nil: nobody that is not settled is before
	done   chan struct{}        // closed once it is known how much room the body takes
	decide func()
	place  *room.Reservation
	owed   int64 // what a small body makes, and does not count yet
}

func newStay(before *stay) *stay {
	s := &stay{done: make(chan struct{})}
	s.decide = sync.OnceFunc(func() { close(s.done) })
	s.before.Store(before)
	return s
}

// take waits for room for a body of so many bytes. wait is called where there is none at once.
func (s *stay) take(ctx context.Context, in room.OwnerRoom, body int64, wait func()) (err error) {
	wait = sync.OnceFunc(wait)
	for p := s.before.Load(); p != nil; p = p.before.Load() {
		select {
		case <-p.done:
			continue
		default:
		}
		wait()
		select {
		case <-p.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if s.place, err = in.Take(ctx, body, wait); err != nil {
		return context.Cause(ctx)
	}
	s.decide()
	return nil
}

// hold counts what the visit takes by now, without waiting. That of a small body, which asked for no room, counts from its
// turn on: earlier visits may still wait for that room.
func (s *stay) hold(bytes int64) {
	if s.place == nil {
		s.owed = bytes
		return
	}
	s.place.Resize(bytes)
}

// turn is when the visit is settled next.
func (s *stay) turn(in room.OwnerRoom) {
	if s.place == nil {
		s.place = in.Empty()
		s.place.Resize(s.owed)
	}
}

// leave gives the room back once the document is sent.
func (s *stay) leave() {
	s.decide()
	s.before.Store(nil)
	s.place.Release()
}
