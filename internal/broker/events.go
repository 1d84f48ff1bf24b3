package broker

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
)

// Told is an event with its place in the stream.
type Told struct {
	Seq uint64
	events.Event
}

// Events reads up to so many of the events behind a place in the stream, one question for each; through is the place behind them. What is no event that
// is known here is passed over. It returns ErrNoStream where there is no stream; with an error, what it had read until then.
func (b *Broker) Events(ctx context.Context, after uint64, most int) (all []Told, through uint64, err error) {
	stream, err := deadline.Get(ctx, "broker.stream", queryTimeout, func(ctx context.Context) (jetstream.Stream, error) {
		return b.stream.Stream(ctx, topology.EventStream)
	})
	if err != nil {
		return nil, after, translate("ask for the stream of events", err)
	}
	for through = after; len(all) < most; {
		msg, err := deadline.Get(ctx, "broker.event", queryTimeout, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return stream.GetMsg(ctx, through+1, jetstream.WithGetMsgSubject(topology.EventSubjects))
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all, through, nil
		}
		if err != nil {
			return all, through, translate("ask for an event", err)
		}
		through = msg.Sequence
		if event, err := events.Read(msg.Header, msg.Data); err == nil {
			all = append(all, Told{msg.Sequence, event})
		}
	}
	return all, through, nil
}
