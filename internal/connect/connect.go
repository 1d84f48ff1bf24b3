// Package connect opens a service's connections (Postgres, NATS), waits until both servers and the schema are there, and closes
// them in order.
package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
)

const (
	askTimeout = 5 * time.Second
	retryEvery = time.Second
	// poolTimeout is a little longer than the pool takes to give up on a server that does not answer.
	poolTimeout = 5 * time.Second
)

// Process is what all services of one process share.
type Process struct {
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Gatherer prometheus.Gatherer
	Ready    *telemetry.Readiness
	// Embedded says that NATS runs in this process: no warning is given that only one server keeps its streams.
	Embedded bool
	// Off says that the service does nothing, because its configuration has switched it off: its connections to Postgres are named so.
	Off bool
}

// NewProcess makes a Process with a registry of its own.
func NewProcess(log *slog.Logger) Process {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return Process{Log: log, Metrics: registry, Gatherer: registry, Ready: &telemetry.Readiness{}}
}

// Logger is the process's log.
func (p Process) Logger() *slog.Logger { return p.Log }

// Registerer registers metrics.
func (p Process) Registerer() prometheus.Registerer { return p.Metrics }

// Note adds a named remark to what readiness reports.
func (p Process) Note(name string, say func() string) { p.Ready.Note(name, say) }

// Servers are a service's connections.
type Servers struct {
	Pool   *pgxpool.Pool
	NATS   *nats.Conn
	Stream jetstream.JetStream
	// Tracer is nil where tracing is off.
	Tracer *tracing.Tracer
	line   *line
	waits  atomic.Pointer[error]
	log    *slog.Logger
	// refused keeps why NATS refuses a request.
	refused *refusals

	embedded  bool
	unmeasure func()
}

// Postgres is the pool.
func (s *Servers) Postgres() *pgxpool.Pool { return s.Pool }

// JetStream is NATS's API, with errors in our words.
func (s *Servers) JetStream() jetstream.JetStream { return s.Stream }

// Tracing is nil where tracing is off.
func (s *Servers) Tracing() *tracing.Tracer { return s.Tracer }

// Open connects a service and waits, as long as ctx allows, for Postgres, the schema's tables and NATS. It returns db.ErrSchema
// where the schema is one that this program does not work on, and postgres.ErrPooler where a pooler is in the way.
func Open(ctx context.Context, cfg config.Common, service string, p Process) (*Servers, error) {
	log := p.Log.With("service", service)
	application := "echomind-" + service
	if p.Off {
		application += "-off"
	}
	pool, err := postgres.Open(ctx, cfg.DatabaseURL, application, cfg.DatabaseMaxConns, postgres.As(cfg.DatabaseRole))
	if err != nil {
		return nil, err
	}
	way := &line{}
	refusals := &refusals{inbox: cfg.Inbox(cfg.NATSURL)}
	conn, err := openNATS(cfg, service, way, refusals, log)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := &Servers{Pool: pool, NATS: conn, line: way, log: log, refused: refusals, embedded: p.Embedded}
	s.started(errors.New("connect.schema: not asked yet"))
	s.unmeasure = measure(p.Metrics, newConnections(service, pool, conn))
	p.Ready.Add(service+".postgres", func(ctx context.Context) error { return db.Check(ctx, pool) })
	p.Ready.Add(service+".nats", s.checkNATS)
	p.Ready.Add(service+".start", func(context.Context) error { return *s.waits.Load() })
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncTimeout(publishTimeout))
	if err == nil {
		s.Stream = stream{js, refusals}
		s.Tracer, err = tracing.Open(cfg.Tracing, service, log)
	}
	if err == nil {
		err = s.wait(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// checkNATS asks for the streams while the service works: a broker that has lost its volume is connected, too.
func (s *Servers) checkNATS(ctx context.Context) error {
	if !s.NATS.IsConnected() {
		return fmt.Errorf("NATS is %s%s", s.NATS.Status(), s.refused.hint())
	}
	if *s.waits.Load() != nil {
		return nil
	}
	return streams.Present(ctx, s.Stream)
}

// started keeps why the service does not work yet; nil = it works.
func (s *Servers) started(waits error) { s.waits.Store(&waits) }

// wait asks until both servers have what the service needs. A connection is not enough: a NATS without JetStream accepts it.
func (s *Servers) wait(ctx context.Context) error {
	err := s.ask(ctx, "connect.schema", func(ctx context.Context) error { return db.Check(ctx, s.Pool) })
	if err == nil {
		err = s.ask(ctx, "connect.streams", func(ctx context.Context) error { return streams.EnsureStreams(ctx, s.Stream) })
	}
	s.started(err)
	if err == nil && !s.embedded {
		s.warn(ctx)
	}
	return err
}

// warn says once where the streams are less durable than they look.
func (s *Servers) warn(ctx context.Context) {
	states, err := streams.Inspect(ctx, s.Stream)
	if err != nil {
		s.log.Warn("the streams' durability is not known", "err", err)
	}
	for name, stream := range states {
		for _, weakness := range stream.Warnings {
			s.log.Warn("a stream is less durable than it looks", "stream", name, "because", weakness)
		}
	}
}

// ask repeats a call until it succeeds, or fails with an error that waiting does not cure.
func (s *Servers) ask(ctx context.Context, name string, call func(context.Context) error) error {
	logged := ""
	for {
		err := deadline.Do(ctx, name, askTimeout, call)
		if err == nil || errors.Is(err, db.ErrSchema) || errors.Is(err, streams.ErrMisconfigured) || errors.Is(err, postgres.ErrPooler) {
			return err
		}
		s.started(fmt.Errorf("%s: %w", name, err))
		if err.Error() != logged {
			logged = err.Error()
			s.log.Warn("waiting for a server", "call", name, "err", err)
		}
		if repeat.Sleep(ctx, retryEvery) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Close sends the last acknowledgements and spans and closes both connections, in bounded time, whatever state the servers are
// in; one failing close never skips the next.
func (s *Servers) Close() error {
	s.unmeasure()
	traced := make(chan error, 1)
	go func() { traced <- s.Tracer.Close() }() // at the same time as the others, so that a stop takes no longer
	return errors.Join(s.closeNATS(), closeWithin("connect.close_pool", poolTimeout, s.Pool.Close), <-traced)
}
