// Package semantic consumes document.process: it embeds, stores, deletes what is gone, counts, and completes runs.
// Redelivery of any message at any point changes nothing.
//
//	one transaction stores a batch of one try:
//	  run_messages   which numbers are new        (no row: already counted)
//	  open_runs      whose run it is              (no row: the run is over, or another try's; roll everything back)
//	  documents      locked, sorted by source_id  (of two workers with two parts, the second sees the first's)
//	  chunks         under (try, first_no, document)
//	  documents      name the chunks of what is whole
//	  open_runs      stored + n, last             (no row: as above)
//
// Besides, it completes runs that are stored and not completed, advances cursors to checkpoints, fails runs whose worker was lost
// again or whose documents were lost in transit, sweeps what ended runs leave, and publishes the events that moves have written down. What can wait is a job of the system: systemJobs.
package semantic

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/leases"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// Embedder turns texts into vectors of unit length, all with the same number of dimensions. An error means that it is away, which
// is a wait.
type Embedder interface {
	Name() string
	Dimensions() int
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Store keeps chunks with their vectors. A chunk is visible once a documents row names its key.
type Store interface {
	Write(ctx context.Context, tx pgx.Tx, pieces []Piece) error
	Remove(ctx context.Context, tx pgx.Tx, keys []Key) error
}

// Semantic is the service.
type Semantic struct {
	config    Config
	servers   *connect.Servers
	queries   *dbgen.Queries
	lifecycle *lifecycle.Lifecycle
	embedder  Embedder
	store     Store
	index     *Index // nil where nobody asked for one
	metrics   *metrics
	log       *slog.Logger
	shared    connect.Process // the workers of the system jobs share it
	// storeTimeout bounds one store transaction. slowPause is how long a run is left alone after one of its messages took longer.
	storeTimeout, slowPause time.Duration
	// unansweredAt is when Postgres last did not answer a small write, in nanoseconds since 1970.
	unansweredAt atomic.Int64
	// quotas is how much more the owners of runs may store.
	quotas quotas
	// long are the messages that are handled beside the workers' batches.
	long *longMessages
	// held are the runs whose rows another transaction holds.
	held heldRuns
	// letters are the messages that have a dead letter and are not counted yet.
	letters publishedLetters
	// workers says which worker processes are lost; only the look for lost workers uses it.
	workers *leases.Watch
	// missing says since when the documents of a draining run are not in the stream; only the look for lost documents uses it.
	missing map[uuid.UUID]time.Time
	// missingFor is how long documents must be missing before they count as lost: a lease, so that more than one look finds them
	// missing.
	missingFor time.Duration
	// wholeAfter, checkpointedAfter, deletedAfter and chunksAt are the places where one look each continues; only that look uses
	// them.
	wholeAfter, checkpointedAfter uuid.UUID
	deletedAfter                  dbgen.DeletedConnectorsParams
	chunksAt                      sweepPlace
}

// Run connects and works until ctx ends; it returns nil on a clean stop.
func Run(ctx context.Context, cfg Config, process connect.Process) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	servers, err := connect.Open(ctx, cfg.Common, "semantic", process)
	if err != nil {
		return err
	}
	s := New(cfg, servers, &embed.Hash{}, NewPostgresStore(), process)
	return errors.Join(s.Run(ctx), servers.Close())
}

// New makes the service on open connections.
func New(cfg Config, servers *connect.Servers, embedder Embedder, store Store, process connect.Process) *Semantic {
	s := &Semantic{
		config: cfg, servers: servers, queries: dbgen.New(servers.Pool), lifecycle: lifecycle.New(servers.Pool),
		embedder: embedder, store: store, metrics: newMetrics(process.Metrics, cfg.Workers),
		log: process.Log.With("service", "semantic"), shared: process, storeTimeout: storeTimeout, slowPause: slowPause,
		workers:    leases.NewWatch(servers.Pool, time.Duration(cfg.LeaseSeconds)*time.Second, time.Now),
		missingFor: time.Duration(cfg.LeaseSeconds) * time.Second, long: newLongMessages(cfg.Workers),
		wholeAfter: uuid.New(), checkpointedAfter: uuid.New(), // processes that live for a short while shall not all begin with the same runs
	}
	if cfg.Qdrant.URL != "" {
		s.index = newIndex(cfg.Qdrant, servers.Pool, embedder, s.metrics, s.log, s.complete)
	}
	return s
}

// Run works until ctx ends.
func (s *Semantic) Run(ctx context.Context) error {
	var group errgroup.Group
	for range s.config.Workers {
		group.Go(func() error { return s.consume(ctx) })
	}
	group.Go(func() error { return s.maintain(ctx) })
	group.Go(func() error { return s.serveSystemJobs(ctx) })
	group.Go(func() error { return s.publishEvents(ctx) })
	if s.index != nil {
		group.Go(func() error { return s.index.run(ctx) })
	}
	err := group.Wait()
	s.long.work.Wait()
	return err
}
