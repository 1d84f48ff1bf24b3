package worker

import (
	"context"
	"time"

	"github.com/echomind/sync/proto/gen/internalpb"
)

// SetMaxRun makes MaxRunMinutes short enough to be waited for.
func (w *Worker) SetMaxRun(d time.Duration) { w.maxRun = d }

// SetStuckAfter makes what a handler may take that ignores the end of its context short enough to be waited for.
func (w *Worker) SetStuckAfter(d time.Duration) { w.stuckAfter = d }

// SetQueryTimeout makes what a handler's question to Postgres may take short enough to be waited for.
func (w *Worker) SetQueryTimeout(d time.Duration) { w.queryTimeout = d }

// MaxLegs is over how many runs a listing may go on.
const MaxLegs = maxLegs

// Numbers is how many numbers the run's handler has taken.
func (r *Run) Numbers() int64 { return r.outbox.total() }

// Sealed says whether the run takes no more numbers.
func (r *Run) Sealed() bool {
	r.outbox.mu.Lock()
	defer r.outbox.mu.Unlock()
	return r.outbox.sealed
}

// HoldPlaces takes all n of the run's places to publish, so that what has a number waits for one, until release is called.
func (r *Run) HoldPlaces(n int64) (release func()) {
	if !r.outbox.places.TryAcquire(n) {
		panic("a place to publish is taken already")
	}
	return func() { r.outbox.places.Release(n) }
}

// SendPanic panics in the place of a call that has a number and has not sent its message.
func (r *Run) SendPanic(ctx context.Context) error {
	return r.sendOne(ctx, func(*internalpb.DocumentProcessRequest) { panic("no message") })
}
