package worker

import "context"

// slots are the free slots of a worker.
type slots chan struct{}

func newSlots(n int) slots {
	free := make(slots, n)
	for range n {
		free.put()
	}
	return free
}

// take returns the number of free slots, together with those that the caller has. It waits for one where the caller has none, and
// returns 0 when ctx has ended.
func (s slots) take(ctx context.Context, has int) int {
	if has == 0 {
		select {
		case <-s:
			has = 1
		case <-ctx.Done():
			return 0
		}
	}
	for {
		select {
		case <-s:
			has++
		default:
			return has
		}
	}
}

// put gives one slot back.
func (s slots) put() { s <- struct{}{} }
