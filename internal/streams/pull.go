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

// Pull passes messages to handle until ctx ends, and then returns nil, or until handle returns an error, and then returns that.
// It asks for messages only after handle has returned: for one, and up to batch-1 more that are in the stream already. Missing
// streams and consumers are made again.
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

// Feed passes messages to take, one by one, until ctx ends. It asks for as many as fit: room gets the unused part
// of what it gave before, waits until there is room, and returns how much there is; 0 = ctx has ended. take must return at
// once. Missing streams and consumers are made again.
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

// keepPulling pulls from a consumer until ctx ends, or until done returns true. After an error it pauses, unless messages came
// all the same.
func keepPulling(
	ctx context.Context, js jetstream.JetStream, stream string, declared jetstream.ConsumerConfig, log *slog.Logger,
	ask func(jetstream.Consumer) (came bool, err error), done func() bool,
) {
	var consumer jetstream.Consumer
	var told string // the last reported problem, and when it was reported: it may last for hours
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

// feed asks for up to n messages in one request, and returns how many were taken once all of them have come, or none has come
// for a while, or ctx has ended: messages that come after that are handed back. Its error is pull's.
func feed(ctx context.Context, consumer jetstream.Consumer, n int, take func(jetstream.Msg)) (taken int, err error) {
	waiting, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	batch, err := consumer.Fetch(n, jetstream.FetchContext(waiting), jetstream.FetchHeartbeat(pullHeartbeat))
	if err != nil {
		return 0, ignoreTimeout(err)
	}
	for msg := range batch.Messages() {
		if ctx.Err() != nil {
			_ = msg.Nak()
			continue
		}
		take(msg)
		taken++
	}
	return taken, ignoreTimeout(batch.Error())
}

// pull returns no messages and no error when none came in time, and a *deadline.Error when the server stopped answering: while
// it waits without messages it sends a heartbeat every pullHeartbeat.
func pull(ctx context.Context, consumer jetstream.Consumer, batch int) ([]jetstream.Msg, error) {
	waiting, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	first, err := consumer.Next(jetstream.FetchContext(waiting), jetstream.FetchHeartbeat(pullHeartbeat))
	if err != nil {
		return nil, ignoreTimeout(err)
	}
	messages := []jetstream.Msg{first}
	if batch == 1 {
		return messages, nil
	}
	// The driver waits a second for each message, and no longer.
	more, err := consumer.FetchNoWait(batch - 1)
	if err != nil {
		return messages, nil
	}
	for msg := range more.Messages() {
		messages = append(messages, msg)
	}
	return messages, nil
}

// ignoreTimeout turns an error that only means that nothing came in time into nil.
func ignoreTimeout(err error) error {
	switch {
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, jetstream.ErrNoHeartbeat):
		return &deadline.Error{Name: "streams.pull", After: 2 * pullHeartbeat}
	}
	return err
}
