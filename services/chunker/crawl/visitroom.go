package crawl

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/echomind/sync/internal/room"
)

// visitRoom is the room that one visit has for its body and what is made of it. The visits of a crawl take it in the order in
// which they are settled: one that has room never waits for another that has none. (A later visit that took the last of it
// would keep it until the earlier one, which waits for it, is settled.)
type visitRoom struct {
	before      atomic.Pointer[visitRoom] // nil: nobody that is not settled is before
	done        chan struct{}             // closed once it is known how much room the body takes
	decide      func()
	reservation *room.Reservation
	deferred    int64 // what a small body makes, and does not count yet
}

func newVisitRoom(before *visitRoom) *visitRoom {
	s := &visitRoom{done: make(chan struct{})}
	s.decide = sync.OnceFunc(func() { close(s.done) })
	s.before.Store(before)
	return s
}

// reserve waits for room for a body of so many bytes. wait is called where there is none at once.
func (s *visitRoom) reserve(ctx context.Context, in room.OwnerRoom, body int64, wait func()) (err error) {
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
	if s.reservation, err = in.Take(ctx, body, wait); err != nil {
		return context.Cause(ctx)
	}
	s.decide()
	return nil
}

// resize counts what the visit takes by now, without waiting. That of a small body, which asked for no room, counts from its
// turn on: earlier visits may still wait for that room.
func (s *visitRoom) resize(bytes int64) {
	if s.reservation == nil {
		s.deferred = bytes
		return
	}
	s.reservation.Resize(bytes)
}

// countDeferred is when the visit is settled next.
func (s *visitRoom) countDeferred(in room.OwnerRoom) {
	if s.reservation == nil {
		s.reservation = in.Empty()
		s.reservation.Resize(s.deferred)
	}
}

// release gives the room back once the document is sent.
func (s *visitRoom) release() {
	s.decide()
	s.before.Store(nil)
	s.reservation.Release()
}
