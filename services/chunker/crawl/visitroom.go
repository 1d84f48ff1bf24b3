package crawl

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/echomind/sync/internal/room"
)

// visitRoom is the memory of one visit, for its body and its result. Visits reserve it in the order in which they are applied, so
// that a visit with memory never waits for a visit without. (A later visit could otherwise hold the last memory that an earlier one
// waits for.)
type visitRoom struct {
	before      atomic.Pointer[visitRoom] // the visit before; nil: all of them are applied
	done        chan struct{}             // closed once the size of the body is known
	decide      func()
	reservation *room.Reservation
	deferred    int64 // bytes of a small body that do not count yet
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

// resize sets how much the visit takes now, without waiting. A small body, which has reserved nothing, counts from countDeferred
// on: earlier visits may still wait for that room.
func (s *visitRoom) resize(bytes int64) {
	if s.reservation == nil {
		s.deferred = bytes
		return
	}
	s.reservation.Resize(bytes)
}

// countDeferred is called when the visit is applied next.
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
