package worker

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/worker/internal/dbgen"
)

// SetMaxRun makes MaxRunMinutes short enough to be waited for.
func (w *Worker) SetMaxRun(d time.Duration) { w.maxRun = d }

// SetStuckAfter makes what a handler may take that ignores the end of its context short enough to be waited for.
func (w *Worker) SetStuckAfter(d time.Duration) { w.stuckAfter = d }

// SetQueryTimeout makes what a handler's question to Postgres may take short enough to be waited for.
func (w *Worker) SetQueryTimeout(d time.Duration) { w.queryTimeout = d }

// MaxLegs is over how many runs a listing may go on.
const MaxLegs = maxListingParts

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

// SetCreditPatience makes how long nothing may be stored of a run that waits short enough to be waited for, or too long for a test.
func (w *Worker) SetCreditPatience(d time.Duration) { w.credits.silence, w.credits.patience = d, d }

// WatchCredit has watch told of each question how far runs are stored, and what it returns of its end.
func (w *Worker) WatchCredit(watch func(tries int) (answered func())) {
	ask := w.credits.stored
	w.credits.stored = func(ctx context.Context, tries []uuid.UUID) ([]dbgen.StoredUpToRow, error) {
		defer watch(len(tries))()
		return ask(ctx, tries)
	}
}

// TakesTooLong ends the run as its clock does.
func (r *Run) TakesTooLong() { r.clock.late() }

// ClockStands says whether what passes now is no work of the run.
func (r *Run) ClockStands() bool {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	return r.clock.waits > 0
}

// IsWait says whether an error is one of Postponed, whose wait counts from when it was made.
func IsWait(err error) bool { return asPostponed(err) != nil }
