package worker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/topology"
)

// giveUp puts a message that can never be handled among the dead letters, waits until that is acknowledged, and
// only then takes it out of its stream.
func (w *Worker) giveUp(ctx context.Context, msg jetstream.Msg, why error) {
	for pause := publishPause; ; pause = min(2*pause, publishPauses) {
		err := topology.DeadLetter(ctx, w.servers.Stream, msg, why, 1)
		if err == nil {
			w.log.Error("a trigger was given up; `echomind dlq list` shows it", "subject", msg.Subject(), "err", why)
			break
		}
		if errors.Is(err, topology.ErrDeadLettersFull) {
			w.log.Error("a trigger was given up and is lost", "subject", msg.Subject(), "err", errors.Join(why, err))
			break
		}
		w.log.Warn("a dead letter waits for the broker", "err", err)
		if ctx.Err() != nil {
			return
		}
		_ = msg.InProgress()
		sleep(ctx, pause)
	}
	w.metrics.deadLetters.Inc()
	// One that is lost brings the message back, and a second dead letter.
	_ = deadline.Do(ctx, "worker.acknowledge", time.Second, msg.DoubleAck)
}
