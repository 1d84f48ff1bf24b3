// Package broker asks NATS what its streams hold and who is subscribed. It makes no consumer, and changes nothing but
// the dead letters that a person removes.
package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/deadline"
)

const queryTimeout = 5 * time.Second

// ErrNoStream says that a stream does not exist (yet, or any more); the services make it again.
var ErrNoStream = errors.New("the stream does not exist")

// Broker is a connection of a person's, who looks.
type Broker struct {
	conn   *nats.Conn
	stream jetstream.JetStream
}

// Open connects. Its error never carries the URL, which may hold a password.
func Open(url string, access config.NATSAccess) (*Broker, error) {
	conn, js, err := connect.Once(url, access)
	if err != nil {
		return nil, err
	}
	return &Broker{conn: conn, stream: js}, nil
}

// Streams is JetStream, for who makes and changes streams.
func (b *Broker) Streams() jetstream.JetStream { return b.stream }

// Connected says whether the connection stands. A connection that has ended is not made again.
func (b *Broker) Connected() bool { return b.conn.IsConnected() }

// Close ends the connection.
func (b *Broker) Close() { b.conn.Close() }

// Depth is what a stream holds.
type Depth struct {
	Messages uint64
	Bytes    uint64
	// Limit is how many bytes it may hold; 0 = any number.
	Limit uint64
	// FirstSeq and LastSeq bound the sequences of what it holds, or of what it last held.
	FirstSeq, LastSeq uint64
	// Made is when the stream was made: a stream that is made anew numbers its messages anew.
	Made time.Time
	// Oldest is when the oldest message arrived, by the broker's clock; nil where there is none.
	Oldest *time.Time
}

// Depth asks for a stream's depth. It returns ErrNoStream where there is none.
func (b *Broker) Depth(ctx context.Context, stream string) (Depth, error) {
	info, err := b.info(ctx, stream)
	if err != nil {
		return Depth{}, err
	}
	s := info.State
	d := Depth{Messages: s.Msgs, Bytes: s.Bytes, Limit: uint64(max(info.Config.MaxBytes, 0)), FirstSeq: s.FirstSeq, LastSeq: s.LastSeq, Made: info.Created}
	if s.Msgs > 0 {
		d.Oldest = &s.FirstTime
	}
	return d, nil
}

// Full says whether a large message may be refused.
func (d Depth) Full() bool { return d.Limit > 0 && d.Bytes+topology.MaxMessageBytes > d.Limit }

// Queue is what waits under one subject.
type Queue struct {
	Messages uint64
	// Oldest is when the oldest message was dispatched, by Postgres's clock; nil where nothing waits.
	Oldest *time.Time
	// OldestSession is the session of the oldest message.
	OldestSession string
}

// Queue asks what waits under a subject. It returns ErrNoStream where there is no stream.
func (b *Broker) Queue(ctx context.Context, stream, subject string) (Queue, error) {
	var q Queue
	oldest, err := deadline.Get(ctx, "broker.oldest_message", queryTimeout,
		func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			s, err := b.stream.Stream(ctx, stream)
			if err != nil {
				return nil, err
			}
			return s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return q, nil
	case err != nil:
		return q, translate("ask for the oldest message", err)
	}
	at, err := topology.DispatchedAt(oldest.Header)
	if err != nil {
		at = oldest.Time // somebody else's message: its arrival is the best evidence there is
	}
	q.Oldest, q.OldestSession = &at, oldest.Header.Get(topology.HeaderSession)
	info, err := b.info(ctx, stream, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return q, err
	}
	q.Messages = info.State.Subjects[subject]
	return q, nil
}

// Subscription is a consumer of a subject.
type Subscription struct {
	Consumer string
	// Waiting is how many pulls wait for a message: free slots of workers.
	Waiting int
	// Held is how many messages are delivered and not acknowledged.
	Held int
	// Queued is how many messages are not delivered yet.
	Queued uint64
}

// Subscriptions lists the consumers that take messages of a subject, or of any with "". None and no error means that nobody ever
// subscribed. It returns ErrNoStream where there is no stream.
func (b *Broker) Subscriptions(ctx context.Context, stream, subject string) ([]Subscription, error) {
	return deadline.Get(ctx, "broker.consumers", queryTimeout, func(ctx context.Context) ([]Subscription, error) {
		s, err := b.stream.Stream(ctx, stream)
		if err != nil {
			return nil, translate("ask for the stream", err)
		}
		list := s.ListConsumers(ctx)
		found := []Subscription{}
		for info := range list.Info() {
			if !takes(info.Config, subject) {
				continue
			}
			sub := Subscription{
				Consumer: info.Name, Waiting: info.NumWaiting, Held: info.NumAckPending, Queued: info.NumPending,
			}
			if info.PushBound {
				sub.Waiting = max(sub.Waiting, 1)
			}
			found = append(found, sub)
		}
		if err := list.Err(); err != nil {
			return nil, translate("list consumers", err)
		}
		return found, nil
	})
}

func (b *Broker) info(ctx context.Context, stream string, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := deadline.Get(ctx, "broker.stream", queryTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		s, err := b.stream.Stream(ctx, stream)
		if err != nil {
			return nil, err
		}
		return s.Info(ctx, opts...)
	})
	return info, translate("ask for the stream", err)
}

func translate(what string, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNoStream):
		return err
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return ErrNoStream
	}
	return fmt.Errorf("%s: %w", what, err)
}

// takes says whether a consumer's filters let a subject through.
func takes(c jetstream.ConsumerConfig, subject string) bool {
	filters := c.FilterSubjects
	if c.FilterSubject != "" {
		filters = append(filters, c.FilterSubject)
	}
	if len(filters) == 0 || subject == "" {
		return true
	}
	for _, filter := range filters {
		if covers(strings.Split(filter, "."), strings.Split(subject, ".")) {
			return true
		}
	}
	return false
}

func covers(filter, subject []string) bool {
	for i, token := range filter {
		switch {
		case token == ">":
			return i < len(subject)
		case i >= len(subject), token != "*" && token != subject[i]:
			return false
		}
	}
	return len(filter) == len(subject)
}
