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
// Beside that it settles what nobody else can: runs that are stored and not completed, checkpoints that nobody passed, runs
// whose worker was lost again or whose documents were lost in transit; and it sweeps what ended runs leave.
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
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/embed"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// Embedder turns texts into vectors of unit length, all of so many dimensions. An error of its means that it is away, which is a
// wait.
type Embedder interface {
	Name() string
	Dimensions() int
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Store keeps chunks with their vectors. What it keeps is visible only once documents names its key.
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
	// storeTimeout bounds one store transaction. slowPause is for how long a run is left alone of which one message took longer.
	storeTimeout, slowPause time.Duration
	// away is when Postgres last gave no answer to a small write, in nanoseconds since 1970.
	away atomic.Int64
	// rooms is how much more the owners of runs may store.
	rooms rooms
	// held is of which runs somebody holds rows.
	held heldRuns
	// letters is of which messages a dead letter is published that are not counted yet.
	letters letters
	// workers is which worker processes are lost; the look for them alone touches it.
	workers *leases.Watch
	// missing is since when the documents of draining runs are not in the stream; the look for them alone touches it.
	missing map[uuid.UUID]time.Time
	// missingFor is how long they must be missing before they count as lost, so that more than one look says so: a lease.
	missingFor time.Duration
	// wholeAfter, checkpointedAfter, deletedAfter and chunksAt are where the look of each goes on; it alone touches it.
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
	s := New(cfg, servers, &embed.Hash{}, NewPostgresStore(servers.Pool), process)
	return errors.Join(s.Run(ctx), servers.Close())
}

// New makes the service on open connections.
func New(cfg Config, servers *connect.Servers, embedder Embedder, store Store, process connect.Process) *Semantic {
	s := &Semantic{
		config: cfg, servers: servers, queries: dbgen.New(servers.Pool), lifecycle: lifecycle.New(servers.Pool),
		embedder: embedder, store: store, metrics: newMetrics(process.Metrics, cfg.Workers),
		log: process.Log.With("service", "semantic"), storeTimeout: storeTimeout, slowPause: slowPause,
		workers:    leases.NewWatch(servers.Pool, time.Duration(cfg.LeaseSeconds)*time.Second),
		missingFor: time.Duration(cfg.LeaseSeconds) * time.Second,
	}
	if cfg.Qdrant.URL != "" {
		s.index = newIndex(cfg.Qdrant, servers.Pool, embedder, s.metrics, s.log)
	}
	return s
}

// Run works until ctx ends.
func (s *Semantic) Run(ctx context.Context) error {
	var group errgroup.Group
	for range s.config.Workers {
		group.Go(func() error { return s.consume(ctx) })
	}
	group.Go(func() error { return s.keepHouse(ctx) })
	if s.index != nil {
		group.Go(func() error { return s.index.run(ctx, s.complete) })
	}
	return group.Wait()
}
