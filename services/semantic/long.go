package semantic

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/contract/topology"
)

const (
	// longBytes is from how many bytes on a message is long: to store one takes as long as to store many small documents.
	longBytes = 64 << 10
	// longRoom is how many bytes of long messages a process holds that its workers have handed over. A worker that has more waits.
	longRoom = 16 << 20
)

// longMessages are handled beside the workers' batches, so that a small document does not wait behind the long ones that others sent
// before it. As many batches of them are at work as there are workers.
type longMessages struct {
	places *semaphore.Weighted
	room   *semaphore.Weighted // in bytes
	work   sync.WaitGroup
}

func newLongMessages(workers int) *longMessages {
	return &longMessages{places: semaphore.NewWeighted(int64(workers)), room: semaphore.NewWeighted(longRoom)}
}

// handleApart handles the messages of a batch whose tries have no long ones in it, and hands the others over. It waits until there is room for these.
func (s *Semantic) handleApart(ctx context.Context, batch []jetstream.Msg) {
	small, long, size := splitLong(batch)
	if len(long) == 0 {
		s.handle(ctx, small)
		return
	}
	stop := keepAlive(ctx, long) // from now on: to handle the small ones may take long
	if len(small) > 0 {
		s.handle(ctx, small)
	}
	size = min(size, longRoom)
	if s.long.room.Acquire(ctx, size) != nil {
		stop()
		nakAll(long)
		return
	}
	s.long.work.Go(func() {
		defer s.long.room.Release(size)
		defer stop()
		if s.long.places.Acquire(ctx, 1) != nil {
			nakAll(long)
			return
		}
		defer s.long.places.Release(1)
		stop() // handle does it itself
		s.handle(ctx, long)
	})
}

// splitLong separates the messages of tries that have a long one in the batch, and says how many bytes these have. The messages of one try
// stay together: a touch must not overtake the content that it keeps, see splitBeforeTouches. One that was delivered before stays with its
// worker, whatever its length: while it is handled alone, that worker begins with nothing else that may end the process.
func splitLong(batch []jetstream.Msg) (small, long []jetstream.Msg, size int64) {
	isLong := map[string]bool{}
	for _, msg := range batch {
		if len(msg.Data()) >= longBytes && isFresh(msg) {
			isLong[msg.Headers().Get(topology.HeaderTry)] = true
		}
	}
	for _, msg := range batch {
		if isLong[msg.Headers().Get(topology.HeaderTry)] && isFresh(msg) {
			long, size = append(long, msg), size+int64(len(msg.Data()))
		} else {
			small = append(small, msg)
		}
	}
	return small, long, size
}

// isFresh says whether a message is delivered for the first time.
func isFresh(msg jetstream.Msg) bool {
	meta, err := msg.Metadata()
	return err != nil || meta.NumDelivered == 1
}

// nakAll hands messages back that nobody has begun with: another process may take them at once.
func nakAll(batch []jetstream.Msg) {
	for _, msg := range batch {
		_ = msg.Nak()
	}
}
