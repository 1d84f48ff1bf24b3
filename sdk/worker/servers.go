package worker

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/tracing"
)

// Servers are the connections that a worker works on. They stay open as long as its Run lasts.
type Servers interface {
	// Postgres is a pool of connections of a user that has the role echomind_worker.
	Postgres() *pgxpool.Pool
	JetStream() jetstream.JetStream
}

// Process is what a worker shares with the rest of its process.
type Process interface {
	Logger() *slog.Logger
	// Registerer takes the worker's metrics.
	Registerer() prometheus.Registerer
	// Note is given a function that says how the worker is; "" = nothing to say. A health page, for example, may call it at any time.
	Note(name string, say func() string)
}

// servers are those that a worker was given. Those of Serve trace, too.
type servers struct {
	Pool   *pgxpool.Pool
	Stream jetstream.JetStream
	Tracer *tracing.Tracer
}

func of(given Servers) servers {
	s := servers{Pool: given.Postgres(), Stream: given.JetStream()}
	if traced, ok := given.(interface{ Tracing() *tracing.Tracer }); ok {
		s.Tracer = traced.Tracing()
	}
	return s
}
