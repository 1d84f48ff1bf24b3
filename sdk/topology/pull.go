package topology

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/sdk/deadline"
)

const (
	pullWait      = 10 * time.Second
	pullHeartbeat = 2 * time.Second
	pullPause     = 500 * time.Millisecond
	pullPauses    = 2 * time.Second // the longest of them
	pullTellAgain = time.Minute
)

// Pull hands messages to handle until ctx ends, then returns nil, or until handle returns an error, then that. It asks
// for a message only when handle has returned: one, with up to batch-1 more that are there already. Stream and consumer
// are made again whenever they are gone.
func Pull(
	ctx context.Context, js jetstream.JetStream, stream string, declared jetstream.ConsumerConfig, batch int,
	log *slog.Logger, handle func([]jetstream.Msg) error,
) error {
	var consumer jetstream.Consumer
	var told string // the problem that was last told of, and when: it may last for hours
	var toldAt time.Time
	for pause := pullPause; ctx.Err() == nil; {
		var messages []jetstream.Msg
		var err error
		if consumer == nil {
			consumer, err = EnsureConsumer(ctx, js, stream, declared)
		}
		if err == nil {
			messages, err = pull(ctx, consumer, batch)
		}
		switch {
		case len(messages) > 0:
			pause = pullPause
			if err := handle(messages); err != nil {
				return err
			}
		case err != nil && ctx.Err() == nil:
			level := slog.LevelDebug
			if pause == pullPauses && (err.Error() != told || time.Since(toldAt) > pullTellAgain) {
				level, told, toldAt = slog.LevelWarn, err.Error(), time.Now()
			}
			log.Log(ctx, level, "messages are not pulled; tried again", "consumer", declared.Durable, "err", err, "pause", pause)
			consumer = nil
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, pullPauses)
		}
	}
	return nil
}

// pull returns no messages and no error when nothing came in time, and a *deadline.Error when the server fell silent:
// while it waits with nothing to give it says so every pullHeartbeat.
func pull(ctx context.Context, consumer jetstream.Consumer, batch int) ([]jetstream.Msg, error) {
	waiting, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	first, err := consumer.Next(jetstream.FetchContext(waiting), jetstream.FetchHeartbeat(pullHeartbeat))
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	if errors.Is(err, jetstream.ErrNoHeartbeat) {
		err = &deadline.Error{Name: "topology.pull", After: 2 * pullHeartbeat}
	}
	if err != nil {
		return nil, err
	}
	messages := []jetstream.Msg{first}
	if batch == 1 {
		return messages, nil
	}
	// The driver waits a second for each of them, and no longer.
	more, err := consumer.FetchNoWait(batch - 1)
	if err != nil {
		return messages, nil
	}
	for msg := range more.Messages() {
		messages = append(messages, msg)
	}
	return messages, nil
}
