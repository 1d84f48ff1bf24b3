package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/deadline"
)

// RemoveAcknowledged removes acknowledged messages from a work queue, and returns the subjects of the messages that it removed. A
// server removes a message when it is acknowledged. A killed server may have written the acknowledgement and not the removal:
// then the message is there again, is delivered to nobody, and stays (nats-server 2.15.2, streams of one replica). The same
// happens to a message that waits while a consumer's filter is widened to it, if the consumer has passed its place. Nothing is
// removed for a consumer with a max_deliver, which is against the contract. A missing stream has no messages.
func RemoveAcknowledged(ctx context.Context, js jetstream.JetStream, name string) ([]string, error) {
	removed, err := deadline.Get(ctx, "streams.acknowledged", queryTimeout, func(ctx context.Context) ([]string, error) {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return nil, err
		}
		state := stream.CachedInfo().State
		if state.Msgs == 0 {
			return nil, nil
		}
		var removed []string
		floors, err := floorsFrom(ctx, stream, state.FirstSeq)
		if err != nil || len(floors) == 0 {
			return nil, err
		}
		info, err := stream.Info(ctx) // read after the floors, which never pass it
		if err != nil {
			return nil, err
		}
		for subject, floor := range floors {
			if last := info.State.LastSeq; floor > last {
				err = errors.Join(err, fmt.Errorf("the consumer of %s has acknowledged up to %d, and the stream ends at %d: it has lost what came last, "+
					"and may deliver nothing until it is past that; remove the consumer, which its worker makes again", subject, floor, last))
				continue
			}
			some, whenRemoved := removeThrough(ctx, stream, subject, floor)
			if some {
				removed = append(removed, subject)
			}
			err = errors.Join(err, whenRemoved)
		}
		return removed, err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return removed, fmt.Errorf("remove what is acknowledged from %s: %w", name, err)
	}
	return removed, nil
}

// floorsFrom are the sequences up to which all messages of a subject are acknowledged, for subjects that reach a sequence.
func floorsFrom(ctx context.Context, stream jetstream.Stream, first uint64) (map[string]uint64, error) {
	floors := map[string]uint64{}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		// The floor of a consumer that gives up passes messages that nobody has acknowledged.
		if info.AckFloor.Stream < first || info.Config.MaxDeliver > 0 {
			continue
		}
		subjects := info.Config.FilterSubjects
		if subject := info.Config.FilterSubject; subject != "" {
			subjects = append(subjects, subject)
		}
		if len(subjects) == 0 {
			subjects = []string{">"}
		}
		for _, subject := range subjects {
			floors[subject] = info.AckFloor.Stream
		}
	}
	return floors, list.Err()
}

func removeThrough(ctx context.Context, stream jetstream.Stream, subject string, floor uint64) (bool, error) {
	oldest, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil || oldest.Sequence > floor {
		return false, err
	}
	return true, stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(floor+1))
}
