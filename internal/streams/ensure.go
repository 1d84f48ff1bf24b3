package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
)

// queryTimeout bounds each request to the server.
const queryTimeout = 5 * time.Second

// ErrNotAllowed says that this program's user lacks a permission in NATS. It is a wait: another user may do the work, or an
// operator grants the permission.
var ErrNotAllowed = errors.New("this program's NATS user may not")

// ErrMisconfigured says that a stream exists with a setting that would lose work.
var ErrMisconfigured = errors.New("stream is misconfigured")

// EnsureStreams creates the missing streams. An existing stream is left as its operator set it, unless a setting would lose
// work: then the error is ErrMisconfigured and names the setting.
func EnsureStreams(ctx context.Context, js jetstream.JetStream) error {
	for _, want := range topology.Streams(topology.DefaultMaxDocumentBytes, topology.DefaultMaxDeadLetterBytes, topology.DefaultMaxEventBytes) {
		if err := ensureStream(ctx, js, want); err != nil {
			return err
		}
	}
	return nil
}

func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	stream, err := deadline.Get(ctx, "streams.stream", queryTimeout, func(ctx context.Context) (jetstream.Stream, error) {
		stream, err := js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			stream, err = js.CreateStream(ctx, want)
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, want.Name)
		}
		return stream, err
	})
	if errors.Is(err, ErrNotAllowed) {
		return fmt.Errorf("stream %s is missing, or cannot be looked at: run `echomind streams apply` as a user who may make it, "+
			"or grant what is refused: %w", want.Name, err)
	}
	if err != nil {
		return fmt.Errorf("ensure stream %s: %w", want.Name, err)
	}
	return check(stream.CachedInfo().Config, want)
}

// check returns ErrMisconfigured for a setting that would lose work.
func check(have, want jetstream.StreamConfig) error {
	switch {
	case have.Retention != want.Retention:
		return fmt.Errorf("%w: %s: retention is %s, must be %s", ErrMisconfigured, want.Name, have.Retention, want.Retention)
	case have.Discard != want.Discard:
		return fmt.Errorf("%w: %s: discard is %s, must be %s, or a full stream drops work",
			ErrMisconfigured, want.Name, have.Discard, want.Discard)
	case want.Retention == jetstream.WorkQueuePolicy && have.MaxAge != 0:
		return fmt.Errorf("%w: %s: max_age is %s, must be 0, or waiting work is dropped",
			ErrMisconfigured, want.Name, have.MaxAge)
	case want.Retention == jetstream.WorkQueuePolicy && have.MaxMsgsPerSubject > 0:
		return fmt.Errorf("%w: %s: max_msgs_per_subject is %d, must be unlimited, or waiting work is dropped",
			ErrMisconfigured, want.Name, have.MaxMsgsPerSubject)
	case have.NoAck:
		return fmt.Errorf("%w: %s: no_ack is true, must be false, or nobody learns what was stored",
			ErrMisconfigured, want.Name)
	}
	for _, subject := range want.Subjects {
		if !slices.Contains(have.Subjects, subject) {
			return fmt.Errorf("%w: %s: subjects are %q, must contain %s, or nothing reaches it",
				ErrMisconfigured, want.Name, have.Subjects, subject)
		}
	}
	return nil
}

// EnsureConsumer creates the stream and the durable consumer where they are missing, and returns the consumer.
func EnsureConsumer(
	ctx context.Context, js jetstream.JetStream, stream string, want jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	if err := EnsureStreams(ctx, js); err != nil {
		return nil, err
	}
	consumer, err := deadline.Get(ctx, "streams.consumer", queryTimeout,
		func(ctx context.Context) (jetstream.Consumer, error) {
			return js.CreateOrUpdateConsumer(ctx, stream, want)
		})
	if err != nil {
		return nil, fmt.Errorf("ensure consumer %s of %s: %w", want.Durable, stream, err)
	}
	return consumer, nil
}
