// Package connect opens what a service needs to work (Postgres, NATS), waits until both are there and the
// schema is right, and closes them in order.
package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/topology"
)

const (
	schemaTimeout = 5 * time.Second
	retryEvery    = time.Second
	drainTimeout  = 3 * time.Second
	// publishTimeout forgets an asynchronous publish whose acknowledgement was lost; else it would count as pending
	// for ever.
	publishTimeout = 10 * time.Second
)

// Process is what all services of one process share.
type Process struct {
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Gatherer prometheus.Gatherer
	Ready    *telemetry.Readiness
}

// NewProcess makes a Process with a registry of its own.
func NewProcess(log *slog.Logger) Process {
	registry := prometheus.NewRegistry()
	return Process{Log: log, Metrics: registry, Gatherer: registry, Ready: &telemetry.Readiness{}}
}

// Servers are a service's connections.
type Servers struct {
	Pool   *pgxpool.Pool
	NATS   *nats.Conn
	Stream jetstream.JetStream
	log    *slog.Logger
}

// Open connects a service and waits, as long as ctx allows, for Postgres, the schema's tables and NATS. It
// returns db.ErrSchema where the schema is another than this program was built for.
func Open(ctx context.Context, cfg config.Common, service string, p Process) (*Servers, error) {
	log := p.Log.With("service", service)
	pool, err := postgres.Open(ctx, cfg.DatabaseURL, "echomind-"+service, cfg.DatabaseMaxConns)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(cfg.NATSURL,
		nats.Name("echomind-"+service),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(500*time.Millisecond), nats.ReconnectJitter(200*time.Millisecond, 500*time.Millisecond),
		nats.PingInterval(10*time.Second), nats.MaxPingsOutstanding(2),
		// Nothing is buffered while NATS is away: a publish fails at once and is repeated by who knows its worth.
		nats.ReconnectBufSize(-1),
		nats.DrainTimeout(drainTimeout),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS is away; work waits until it is back", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("NATS is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Debug("NATS reports", "err", err)
		}),
	)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("read NATS_URL: %w", err)
	}
	s := &Servers{Pool: pool, NATS: conn, log: log}
	if s.Stream, err = jetstream.New(conn, jetstream.WithPublishAsyncTimeout(publishTimeout)); err == nil {
		p.Ready.Add(service+".postgres", func(ctx context.Context) error { return db.Check(ctx, pool) })
		p.Ready.Add(service+".nats", s.checkNATS)
		err = s.wait(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Servers) checkNATS(context.Context) error {
	if !s.NATS.IsConnected() {
		return fmt.Errorf("NATS is %s", s.NATS.Status())
	}
	return nil
}

func (s *Servers) wait(ctx context.Context) error {
	ask := func(name string, call func(context.Context) error) error {
		for first := true; ; first = false {
			err := deadline.Do(ctx, name, schemaTimeout, call)
			if err == nil || errors.Is(err, db.ErrSchema) || errors.Is(err, topology.ErrMisconfigured) {
				return err
			}
			if first {
				s.log.Warn("waiting for a server", "call", name, "err", err)
			}
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-time.After(retryEvery):
			}
		}
	}
	if err := ask("connect.schema", func(ctx context.Context) error { return db.Check(ctx, s.Pool) }); err != nil {
		return err
	}
	return ask("connect.streams", func(ctx context.Context) error { return topology.EnsureStreams(ctx, s.Stream) })
}

// Close drains NATS and closes the pool; one failing close never skips the next.
func (s *Servers) Close() error {
	closed := make(chan struct{})
	s.NATS.SetClosedHandler(func(*nats.Conn) { close(closed) })
	err := s.NATS.Drain()
	if err != nil {
		s.NATS.Close()
	}
	select {
	case <-closed:
	case <-time.After(drainTimeout + time.Second):
		s.NATS.Close()
	}
	s.Pool.Close()
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionReconnecting) {
		return nil
	}
	return err
}
