package broker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/deadline"
)

// eventsAtOnce is how many events are asked for at the same time: a broker may be milliseconds away.
const eventsAtOnce = 64

// Told is a message of the stream of events with its place there.
type Told struct {
	Seq uint64
	// Stored is when the stream took it: another message that has its number, after the stream has lost some, has another.
	Stored time.Time
	// Event is nil where it is no event that is known here.
	*events.Event
}

// Events reads the messages behind a place in the stream of events, up to another, one question for each. Numbers that the stream has not, or has no
// more, are left out. reached is how far it came, also with an error. It returns ErrNoStream where there is no stream.
func (b *Broker) Events(ctx context.Context, after, through uint64) (all []Told, reached uint64, err error) {
	stream, err := deadline.Get(ctx, "broker.stream", queryTimeout, func(ctx context.Context) (jetstream.Stream, error) {
		return b.stream.Stream(ctx, topology.EventStream)
	})
	if err != nil {
		return nil, after, translate("ask for the stream of events", err)
	}
	found, isAnswered := make([]Told, through-after), make([]bool, through-after)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(eventsAtOnce)
	for i := range found {
		group.Go(func() error {
			msg, err := deadline.Get(ctx, "broker.event", queryTimeout, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
				return stream.GetMsg(ctx, after+1+uint64(i))
			})
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				isAnswered[i] = true
				return nil
			}
			if err != nil {
				return translate("ask for an event", err)
			}
			isAnswered[i] = true
			found[i] = Told{Seq: msg.Sequence, Stored: msg.Time}
			if event, err := events.Read(msg.Header, msg.Data); err == nil {
				found[i].Event = &event
			}
			return nil
		})
	}
	err = group.Wait()
	for i, one := range found {
		if !isAnswered[i] {
			break
		}
		if reached++; one.Seq != 0 {
			all = append(all, one)
		}
	}
	return all, after + reached, err
}
