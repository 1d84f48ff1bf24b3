package ours

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/worker"
)

// Told has the n connectors of a type become due one after another, a thousand a second, and synced by a handler that finds nothing to do. It returns how many verdicts a second there
// were, and how long each took into the stream of events, in milliseconds: from the event's time, which Postgres says, to when the stream took it.
func (s *System) Told(ctx context.Context, kind string, n int) (rate float64, lags []float64, err error) {
	if err := s.makeDue(ctx, kind); err != nil {
		return 0, nil, err
	}
	from := time.Now().Add(ahead) // what is vacuumed and written to the disk before may take longer
	if err := s.spreadDue(ctx, kind, from, time.Duration(n)*time.Second/pace); err != nil {
		return 0, nil, err
	}
	if time.Now().After(from) {
		return 0, nil, fmt.Errorf("%d connectors are not made due within %s", n, ahead)
	}
	stop, err := s.serve(ctx, kind, func(context.Context, *worker.Run) error { return nil })
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	took, err := s.verdicts(ctx, kind, from, n)
	if err != nil {
		return 0, nil, err
	}
	lags, err = s.lags(ctx, kind, from, n)
	return float64(n) / took, lags, err
}

// lags reads the events of n verdicts from the stream, which may be still to come.
func (s *System) lags(ctx context.Context, kind string, from time.Time, n int) ([]float64, error) {
	nc, err := nats.Connect(s.bus)
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	told, err := js.OrderedConsumer(ctx, topology.EventStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"events.run." + kind + ".*"}, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from,
	})
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	lags := make([]float64, 0, n)
	for len(lags) < n {
		msg, err := told.Next(jetstream.FetchMaxWait(time.Minute))
		if err != nil {
			return nil, fmt.Errorf("%d of %d verdicts are told: %w", len(lags), n, err)
		}
		at, err := msg.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read an event: %w", err)
		}
		e, err := events.Read(msg.Headers(), msg.Data())
		if err != nil {
			return nil, fmt.Errorf("read an event: %w", err)
		}
		lags = append(lags, float64(at.Timestamp.Sub(e.Time).Microseconds())/1000)
	}
	return lags, nil
}
