// Package webhooks tells URLs of users when connectors are failed, disabled or stale, and when they are well again.
//
//	service.go  what runs: three loops, in each replica; the database keeps two replicas from telling the same twice
//	look.go     how connectors stand, compared with what each webhook was told; a difference becomes a delivery, in one transaction
//	send.go     what is due is sent, outside of transactions, and what has come of it is written
//	post.go     one request: signed, guarded, bounded
//	again.go    when a delivery is tried again, and how long a receiver is left alone
//	sign.go     secrets and signatures, as Standard Webhooks has them
//	address.go  which URLs may be told
//	keep.go     old deliveries go; secrets are sealed anew with the newest key
//
// A delivery is sent at least once: who dies between sending and writing has it sent again, with the same id.
package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

const (
	// lookEvery is how often connectors are looked for that stand otherwise than before, and sendEvery how often somebody asks what is due.
	lookEvery = 15 * time.Second
	sendEvery = time.Second
	// reviewEvery is about how often a webhook is looked at although none of its connectors has changed: its owner may see other connectors by now.
	reviewEvery = 15 * time.Minute
	keepEvery   = time.Minute
	// queryTimeout bounds a transaction, statementTimeout each of its statements.
	queryTimeout     = 10 * time.Second
	statementTimeout = 8 * time.Second
	lockTimeout      = 2 * time.Second
	// idleTimeout is how long this process may say nothing within a transaction: a deletion of a connector that waits for it gives up after lockTimeout.
	idleTimeout = time.Second
)

// Setting is the name of the setting that lists private addresses which may be told.
const Setting = "API_WEBHOOK_ALLOW_CIDRS"

// Config is what a Service needs to know.
type Config struct {
	// Allow are the private addresses that may be told, and the only ones that may without TLS.
	Allow []netip.Prefix
	// MostFailing is how long everything may fail before a webhook is switched off.
	MostFailing time.Duration
	// PageURL is where people see the page; empty: messages have no links.
	PageURL string
}

// Service tells webhooks.
type Service struct {
	config  Config
	pool    *pgxpool.Pool
	ring    *secret.Ring
	guard   *guard.Guard
	secure  *http.Transport
	plain   *http.Transport
	metrics *metrics
	log     *slog.Logger
	// asking has one place: of a replica's connections one is for webhooks at a time.
	asking chan struct{}
	// turns are the webhooks that are sent to at once, and sending waits for them.
	turns   chan struct{}
	sending sync.WaitGroup
	// resealed is up to which webhook secrets were sealed anew; who keeps house has it.
	resealed int32
}

// New makes the service. ring may be nil: then there is no webhook that could be sent to.
func New(cfg Config, pool *pgxpool.Pool, ring *secret.Ring, registry prometheus.Registerer, log *slog.Logger) *Service {
	g := guard.New(Setting, cfg.Allow)
	s := &Service{
		config: cfg, pool: pool, ring: ring, guard: g, secure: g.Transport(guard.TransportConfig{}), plain: guard.Only(Setting, cfg.Allow).Transport(guard.TransportConfig{}),
		metrics: newMetrics(registry), log: log, asking: make(chan struct{}, 1), turns: make(chan struct{}, mostWebhooks),
	}
	return s
}

// Run tells until ctx ends, and returns once nothing is under way any more.
func (s *Service) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { s.loop(ctx, "look", lookEvery, s.Look) })
	loops.Go(func() { s.loop(ctx, "send", sendEvery, s.Send) })
	loops.Go(func() { s.loop(ctx, "keep", keepEvery, s.Keep) })
	loops.Wait()
	s.Close()
}

// Close waits for what is being sent, and closes connections.
func (s *Service) Close() {
	s.Wait()
	s.secure.CloseIdleConnections()
	s.plain.CloseIdleConnections()
}

// loop does work again and again; after failures it rests for longer.
func (s *Service) loop(ctx context.Context, what string, every time.Duration, work func(context.Context) error) {
	failures := 0
	for pause := time.Duration(0); repeat.Sleep(ctx, pause) == nil; {
		err := caught.Do(func() error { return work(ctx) })
		switch {
		case err == nil:
			failures, pause = 0, every
		case ctx.Err() != nil:
			return
		default:
			failures++
			pause = repeat.Pauses{First: every, Last: max(every, time.Minute)}.Scattered(failures)
			if failures == 1 || failures%20 == 0 {
				s.log.Warn("webhooks are told later", "part", what, "failures", failures, "err", err)
			}
		}
	}
}

// bounds are those of each transaction.
func bounds() postgres.Bounds {
	return postgres.Bounds{Lock: lockTimeout, Statement: deadline.Of(statementTimeout), Idle: deadline.Of(idleTimeout)}
}

// in does work in one bounded transaction.
func (s *Service) in(ctx context.Context, name string, work func(context.Context, *dbgen.Queries) error) error {
	return s.ask(ctx, name, func(ctx context.Context) error {
		return postgres.TxBounded(ctx, s.pool, bounds(), func(tx pgx.Tx) error { return work(ctx, dbgen.New(tx)) })
	})
}

// ask waits for this replica's connection, and bounds what is asked.
func (s *Service) ask(ctx context.Context, name string, work func(context.Context) error) error {
	select {
	case s.asking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.asking }()
	if err := deadline.Do(ctx, name, queryTimeout, work); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
