package worker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/streams"
)

// giveUp puts a message that can never be handled among the dead letters, waits until that is acknowledged, and
// only then takes it out of its stream.
func (w *Worker) giveUp(ctx context.Context, msg jetstream.Msg, why error) {
	if !w.publishDeadLetter(ctx, msg, why) {
		return
	}
	w.metrics.deadLetters.Inc()
	// A lost acknowledgement brings the message back, and a second dead letter.
	_ = deadline.Do(ctx, "worker.acknowledge", time.Second, msg.DoubleAck)
}

// publishDeadLetter returns false where the service stops first.
func (w *Worker) publishDeadLetter(ctx context.Context, msg jetstream.Msg, why error) bool {
	for range pauses.Tries(ctx) {
		err := streams.DeadLetter(ctx, w.servers.Stream, msg, why, 1)
		switch {
		case err == nil:
			w.log.Error("a trigger was given up; `echomind dlq list` shows it", "subject", msg.Subject(), "err", why)
			return true
		case errors.Is(err, streams.ErrDeadLettersFull):
			w.log.Error("a trigger was given up and is lost", "subject", msg.Subject(), "err", errors.Join(why, err))
			return true
		}
		w.log.Warn("a dead letter waits for the broker", "err", err)
		_ = msg.InProgress()
	}
	return false
}
