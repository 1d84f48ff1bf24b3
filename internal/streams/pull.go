package streams

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
)

const (
	pullWait      = 10 * time.Second
	pullHeartbeat = 2 * time.Second
	pullTellAgain = time.Minute
)

// pulls are the pauses between tries while nothing can be pulled.
var pulls = repeat.Pauses{First: 500 * time.Millisecond, Last: 2 * time.Second}

// Pull hands messages to handle until ctx ends, then returns nil, or until handle returns an error, then that. It asks
// for a message only when handle has returned: one, with up to batch-1 more that are there already. Stream and consumer
// are made again whenever they are gone.
func Pull(
	ctx context.Context, js jetstream.JetStream, stream string, declared jetstream.ConsumerConfig, batch int,
	log *slog.Logger, handle func([]jetstream.Msg) error,
) (end error) {
	keepPulling(ctx, js, stream, declared, log, func(consumer jetstream.Consumer) (bool, error) {
		messages, err := pull(ctx, consumer, batch)
		if len(messages) > 0 {
			end = handle(messages)
		}
		return len(messages) > 0, err
	}, func() bool { return end != nil })
	return end
}

// Feed hands messages to take, one by one, until ctx ends, then returns. It asks for as many as there is room for: room waits until
// there is any, is told how much of what it gave before is unused, and returns how much there is with it; 0 = ctx has ended. take
// is not waited for, so that it returns at once. Stream and consumer are made again whenever they are gone.
func Feed(
	ctx context.Context, js jetstream.JetStream, stream string, declared jetstream.ConsumerConfig, log *slog.Logger,
	room func(unused int) int, take func(jetstream.Msg),
) {
	unused := 0
	keepPulling(ctx, js, stream, declared, log, func(consumer jetstream.Consumer) (bool, error) {
		if unused = room(unused); unused == 0 {
			return false, nil
		}
		came, err := feed(ctx, consumer, unused, take)
		unused -= came
		return came > 0, err
	}, func() bool { return false })
}

// keepPulling asks a consumer until ctx ends, or done says so. After an error it pauses, unless something came all the same.
func keepPulling(
	ctx context.Context, js jetstream.JetStream, stream string, declared jetstream.ConsumerConfig, log *slog.Logger,
	ask func(jetstream.Consumer) (came bool, err error), done func() bool,
) {
	var consumer jetstream.Consumer
	var told string // the problem that was last told of, and when: it may last for hours
	var toldAt time.Time
	for failures := 0; ctx.Err() == nil && !done(); {
		var came bool
		var err error
		if consumer == nil {
			consumer, err = EnsureConsumer(ctx, js, stream, declared)
		}
		if err == nil {
			came, err = ask(consumer)
		}
		switch {
		case came:
			failures = 0
		case err != nil && ctx.Err() == nil:
			failures++
			level, pause := slog.LevelDebug, pulls.After(failures)
			if pause == pulls.Last && (err.Error() != told || time.Since(toldAt) > pullTellAgain) {
				level, told, toldAt = slog.LevelWarn, err.Error(), time.Now()
			}
			log.Log(ctx, level, "messages are not pulled; tried again", "consumer", declared.Durable, "err", err, "pause", pause)
			consumer = nil
			_ = repeat.Sleep(ctx, pause)
		}
	}
}

// feed asks for up to n messages in one request, and returns how many were taken when all have come, or none has come any more for a
// while, or ctx has ended: what comes then is handed back. Its error is pull's.
func feed(ctx context.Context, consumer jetstream.Consumer, n int, take func(jetstream.Msg)) (taken int, err error) {
	waiting, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	batch, err := consumer.Fetch(n, jetstream.FetchContext(waiting), jetstream.FetchHeartbeat(pullHeartbeat))
	if err != nil {
		return 0, pulled(err)
	}
	for msg := range batch.Messages() {
		if ctx.Err() != nil {
			_ = msg.Nak()
			continue
		}
		take(msg)
		taken++
	}
	return taken, pulled(batch.Error())
}

// pull returns no messages and no error when nothing came in time, and a *deadline.Error when the server fell silent:
// while it waits with nothing to give it says so every pullHeartbeat.
func pull(ctx context.Context, consumer jetstream.Consumer, batch int) ([]jetstream.Msg, error) {
	waiting, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	first, err := consumer.Next(jetstream.FetchContext(waiting), jetstream.FetchHeartbeat(pullHeartbeat))
	if err != nil {
		return nil, pulled(err)
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

// pulled is nil where nothing came in time.
func pulled(err error) error {
	switch {
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, jetstream.ErrNoHeartbeat):
		return &deadline.Error{Name: "streams.pull", After: 2 * pullHeartbeat}
	}
	return err
}
