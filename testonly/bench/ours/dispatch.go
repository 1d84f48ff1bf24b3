package ours

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/testonly/bench/figures"
)

// warmTicks make plans and connections before ticks are measured.
const warmTicks = 20

// Dispatcher is the real scheduler with its defaults, ticked by hand.
type Dispatcher struct {
	system    *System
	scheduler *scheduler.Scheduler
	servers   *connect.Servers
}

// Dispatcher connects a scheduler that does nothing by itself.
func (s *System) Dispatcher(ctx context.Context) (*Dispatcher, error) {
	cfg, err := s.scheduling()
	if err != nil {
		return nil, err
	}
	process := s.process()
	servers, err := connect.Open(ctx, cfg.Common, "scheduler", process)
	if err != nil {
		return nil, err
	}
	return &Dispatcher{s, scheduler.New(cfg, servers, process), servers}, nil
}

// Close ends its connections.
func (d *Dispatcher) Close() error { return d.servers.Close() }

// Rate makes all connectors of a type due, claims and publishes them, and returns how many a second.
func (d *Dispatcher) Rate(ctx context.Context, kind string, n int) (float64, error) {
	if err := d.Prepare(ctx, kind); err != nil {
		return 0, err
	}
	return d.Prepared(ctx, n)
}

// Prepare makes all connectors of a type due.
func (d *Dispatcher) Prepare(ctx context.Context, kind string) error {
	if err := d.system.makeDue(ctx, kind); err != nil {
		return err
	}
	return d.purge(ctx)
}

// Prepared claims and publishes the n connectors that were made due, and returns how many a second.
func (d *Dispatcher) Prepared(ctx context.Context, n int) (float64, error) {
	began := time.Now()
	if err := d.scheduler.Tick(ctx); err != nil {
		return 0, fmt.Errorf("tick: %w", err)
	}
	took := time.Since(began).Seconds()
	info, err := d.state(ctx)
	if err != nil {
		return 0, err
	}
	if int(info.State.Msgs) != n {
		return 0, fmt.Errorf("%d triggers are in the stream, %d are expected", info.State.Msgs, n)
	}
	return float64(n) / took, nil
}

const (
	// pace is how many connectors become due a second, and ahead how long before the first that is written down.
	pace, ahead = 1000, 6 * time.Second
	// betweenTicks is between two ticks.
	betweenTicks = 100 * time.Millisecond
)

// Paced has the n connectors of a type become due one after another, a thousand a second, and returns how many of them it claimed and published a second. It runs started once the first
// is nearly due.
func (d *Dispatcher) Paced(ctx context.Context, kind string, n int, started func()) (float64, error) {
	if err := d.Prepare(ctx, kind); err != nil {
		return 0, err
	}
	over := time.Duration(n) * time.Second / pace
	from := time.Now().Add(ahead) // what is vacuumed and written to the disk before may take longer
	if err := d.system.spreadDue(ctx, kind, from, over); err != nil {
		return 0, err
	}
	if time.Now().After(from) {
		return 0, fmt.Errorf("%d connectors are not made due within %s", n, ahead)
	}
	started()
	time.Sleep(time.Until(from))
	for time.Since(from) < 10*over {
		if err := d.scheduler.Tick(ctx); err != nil {
			return 0, fmt.Errorf("tick: %w", err)
		}
		info, err := d.state(ctx)
		if err != nil {
			return 0, err
		}
		if int(info.State.Msgs) == n {
			return float64(n) / time.Since(from).Seconds(), nil
		}
		time.Sleep(betweenTicks)
	}
	return 0, fmt.Errorf("%d connectors that became due within %s are not dispatched within %s", n, over, 10*over)
}

// StandStill puts connectors of a type that nobody serves in flight.
func (d *Dispatcher) StandStill(ctx context.Context, kind string, n int) error {
	err := d.system.Type(ctx, kind, 0)
	if err == nil {
		err = d.system.Add(ctx, kind, n)
	}
	if err == nil {
		_, err = d.Rate(ctx, kind, n)
	}
	if err != nil {
		return fmt.Errorf("put %d connectors in flight: %w", n, err)
	}
	return nil
}

// TickSeconds is the median time of a tick that finds nothing due.
func (d *Dispatcher) TickSeconds(ctx context.Context, ticks int) (float64, error) {
	times := make([]float64, 0, ticks)
	for i := range warmTicks + ticks {
		began := time.Now()
		if err := d.scheduler.Tick(ctx); err != nil {
			return 0, fmt.Errorf("tick: %w", err)
		}
		if i >= warmTicks {
			times = append(times, time.Since(began).Seconds())
		}
	}
	return figures.Median(times), nil
}

// state asks for the stream of triggers, which the first tick makes where there is none.
func (d *Dispatcher) state(ctx context.Context) (*jetstream.StreamInfo, error) {
	stream, err := d.servers.Stream.Stream(ctx, topology.SyncStream)
	if err != nil {
		return nil, fmt.Errorf("look at the stream of triggers: %w", err)
	}
	return stream.CachedInfo(), nil
}

func (d *Dispatcher) purge(ctx context.Context) error {
	stream, err := d.servers.Stream.Stream(ctx, topology.SyncStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil {
		err = stream.Purge(ctx)
	}
	if err != nil {
		return fmt.Errorf("purge the stream of triggers: %w", err)
	}
	return nil
}
