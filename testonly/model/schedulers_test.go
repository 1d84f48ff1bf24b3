package model

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// tick lets one scheduler claim and publish; it dies before it can do more than the given number of things.
func (w *world) tick(i, events int) {
	w.tb.Helper()
	w.scheduling(i, events, "tick", w.brokers[i].Tick)
}

// republish looks for lost messages after the grace is over: for those alone that the stream does not hold, or,
// where impatient, for all, so that messages are doubled.
func (w *world) republish(i, events int, impatient bool) {
	w.tb.Helper()
	queued := []uuid.UUID{}
	if !impatient {
		queued = w.queuedSessions()
	}
	w.exec(w.tb, `UPDATE open_runs SET dispatched_at = clock_timestamp() - interval '1 hour'
		WHERE picked_up_at IS NULL AND NOT id = ANY($1)`, queued)
	w.scheduling(i, events, "republish", w.brokers[i].Republish)
}

func (w *world) rescue(i, events int) {
	w.tb.Helper()
	w.scheduling(i, events, "rescue", w.brokers[i].Rescue)
}

func (w *world) scheduling(i, events int, what string, do func(context.Context) error) {
	w.tb.Helper()
	var err error
	if w.schedulers[i].live(events, func(ctx context.Context, _ *life) { err = do(ctx) }) {
		w.startScheduler(i)
		return
	}
	must(w.tb, what, err)
}

// tickBoth lets both schedulers tick at once: both believe that they lead.
func (w *world) tickBoth() {
	w.tb.Helper()
	var errs [2]error
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			w.schedulers[i].live(immortal, func(ctx context.Context, _ *life) { errs[i] = w.brokers[i].Tick(ctx) })
		})
	}
	both.Wait()
	for _, err := range errs {
		must(w.tb, "tick", err)
	}
}

// claimAndDie commits a claim, and publishes nothing of it.
func (w *world) claimAndDie(i int, kind string) {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	_, err := w.brokers[i].Claim(ctx, kind, limit, 3)
	must(w.tb, "claim", err)
	w.startScheduler(i)
}
