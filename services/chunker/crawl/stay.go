package crawl

import (
	"context"
	"sync"

	"github.com/echomind/sync/internal/room"
)

// stay is the room that one visit has for its body. The visits of a crawl take it in the order in which they are settled: one that
// has room never waits for another that has none. (A later visit that took the last of it would keep it until the earlier one,
// which waits for it, is settled.)
type stay struct {
	before <-chan struct{} // nil: nobody is before
	done   chan struct{}
	decide func()
	place  *room.Place
}

func newStay(before *stay) *stay {
	s := &stay{done: make(chan struct{})}
	s.decide = sync.OnceFunc(func() { close(s.done) })
	if before != nil {
		s.before = before.done
	}
	return s
}

// take waits for room for a body of so many bytes. wait is called where there is none at once.
func (s *stay) take(ctx context.Context, in room.Owned, body int64, wait func()) (err error) {
	wait = sync.OnceFunc(wait)
	if s.before != nil {
		select {
		case <-s.before:
		default:
			wait()
			select {
			case <-s.before:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	if s.place, err = in.Take(ctx, body, wait); err != nil {
		return context.Cause(ctx)
	}
	s.decide()
	return nil
}

// leave gives the room back once the document is sent.
func (s *stay) leave() {
	s.decide()
	s.place.Leave()
}
