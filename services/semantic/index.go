package semantic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/services/semantic/internal/qdrant"
)

const (
	// lookEvery is how often the index looks whether its collection is there, and for changes that nobody told it of.
	lookEvery = 5 * time.Second
	// handoverAfter is how long nobody keeps an index before one of another name replaces it, and abandonedAfter before it
	// is forgotten, or filled anew by who keeps it again.
	handoverAfter, abandonedAfter = time.Minute, 10 * time.Minute
	// turnWait is how long a turn is waited for, and frozenAfter how long who has it may do nothing, or two slow requests.
	turnWait, frozenAfter = 5 * time.Second, 18 * time.Second
	// turnTimeout bounds a turn: a request for each page of the largest document, or queueing every document.
	turnTimeout = 5 * time.Minute
	// longQueue is how far the changes that wait are counted.
	longQueue = 100_000
	// maxStored bounds how many runs are remembered to be completed; those beyond are found by who keeps house.
	maxStored = 10_000
)

var (
	// errIndex says that the index could not be asked; it is a wait.
	errIndex = errors.New("the search index is away")
	errDown  = fmt.Errorf("%w: it was a moment ago", errIndex)
)

// Index keeps a collection of Qdrant as Postgres says:
//
//	documents, connectors ──trigger──▶ search_index_changes ──one at a time──▶ what the document shows now ──▶ Qdrant
//
// Postgres has every vector. What is brought again, or in another order, ends in the same collection, and one that is lost
// is filled again. A point that outlives its chunk is no hit, since hits are read from Postgres.
type Index struct {
	pool     *pgxpool.Pool
	queries  *dbgen.Queries
	embedder Embedder
	qdrant   *qdrant.Client
	name     string
	metrics  *metrics
	log      *slog.Logger

	// down says that Qdrant was not there the last time; then only the next look asks it.
	down   atomic.Bool
	kicked chan struct{}
	mu     sync.Mutex
	stored []uuid.UUID // runs to be completed
}

func newIndex(cfg config.Qdrant, pool *pgxpool.Pool, embedder Embedder, metrics *metrics, log *slog.Logger) *Index {
	name := indexName(cfg, embedder)
	return &Index{
		pool: pool, queries: dbgen.New(pool), embedder: embedder, qdrant: qdrant.New(cfg), name: name, metrics: metrics,
		log: log.With("index", name), kicked: make(chan struct{}, 1),
	}
}

// kick says that something was stored, and of which runs everything is.
func (x *Index) kick(whole ...uuid.UUID) {
	x.mu.Lock()
	if len(x.stored) < maxStored {
		x.stored = append(x.stored, whole...)
	}
	x.mu.Unlock()
	select {
	case x.kicked <- struct{}{}:
	default:
	}
}

// run keeps the index until ctx ends, and completes the runs that can be found.
func (x *Index) run(ctx context.Context, complete func(context.Context, uuid.UUID) error) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	catchUp := func(ctx context.Context) error { return x.catchUp(ctx, complete) }
	step := x.Look
	for {
		if err := step(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errDown) {
			x.log.Warn("the search index is behind; tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-x.kicked:
			step = catchUp
		case <-ticker.C:
			step = x.Look
		}
	}
}

// catchUp completes the runs of which everything is stored, and brings what was stored of others. What fails is left to
// the next look, and to who keeps house.
func (x *Index) catchUp(ctx context.Context, complete func(context.Context, uuid.UUID) error) error {
	x.mu.Lock()
	stored := x.stored
	x.stored = nil
	x.mu.Unlock()
	for _, run := range stored {
		if err := complete(ctx, run); err != nil {
			return err
		}
	}
	return x.unlessDown(func() error { return x.bring(ctx, nil) })
}

// unlessDown calls Qdrant, and remembers if that fails.
func (x *Index) unlessDown(call func() error) error {
	if x.down.Load() {
		return errDown
	}
	err := call()
	if err != nil {
		x.down.Store(true)
	}
	return err
}

// Look makes the collection where it is missing, and brings every change that waits.
func (x *Index) Look(ctx context.Context) error {
	err := x.keep(ctx)
	if errors.Is(err, qdrant.ErrMissing) {
		err = x.keep(ctx)
	}
	x.down.Store(err != nil)
	return err
}

// keep brings what waits, and then asks whether the collection is there. One that is not is forgotten: the next is another.
func (x *Index) keep(ctx context.Context) error {
	row, err := deadline.Get(ctx, "semantic.index_begin", queryTimeout, x.begin)
	if err != nil || row.Name != x.name {
		return err
	}
	if err = x.bring(ctx, nil); err == nil {
		err = x.away(x.qdrant.Collection(collectionName(row)).Check(ctx, x.embedder.Dimensions()))
	}
	if errors.Is(err, qdrant.ErrMissing) {
		x.log.Warn("the search index is lost", "collection", collectionName(row))
		return errors.Join(err, deadline.Do(ctx, "semantic.index_state", queryTimeout, func(ctx context.Context) error {
			return x.drop(ctx, &row.Generation)
		}))
	}
	return err
}

func (x *Index) drop(ctx context.Context, lost *uuid.UUID) error {
	return x.queries.DropSearchIndex(ctx, dbgen.DropSearchIndexParams{
		Lost: lost, Name: x.name, Handover: handoverAfter, Abandoned: abandonedAfter,
	})
}

// begin says that this index is kept, unless one of another name is; from then on documents that change are noted.
func (x *Index) begin(ctx context.Context) (dbgen.SearchIndexRow, error) {
	if err := x.drop(ctx, nil); err != nil {
		return dbgen.SearchIndexRow{}, err
	}
	if _, err := x.queries.FeedSearchIndex(ctx, x.name); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return dbgen.SearchIndexRow{}, err
	}
	row, err := x.queries.SearchIndex(ctx)
	if !errors.Is(err, pgx.ErrNoRows) {
		return row, err
	}
	// New stores queue behind who waits for a table.
	bounds := postgres.Bounds{Lock: 2 * time.Second, Idle: frozenAfter}
	err = postgres.TxBounded(ctx, x.pool, bounds, func(tx pgx.Tx) error {
		q := x.queries.WithTx(tx)
		if err := q.LockDocumentsTable(ctx); err != nil {
			return err
		}
		return q.BeginSearchIndex(ctx, x.name)
	})
	if err != nil {
		return row, err
	}
	return x.queries.SearchIndex(ctx)
}

// away counts an answer that did not come, and makes it a wait.
func (x *Index) away(err error) error {
	if err == nil {
		return nil
	}
	x.metrics.indexErrors.Inc()
	return fmt.Errorf("%w: %w", errIndex, err)
}

// Measure counts what waits to be brought.
func (x *Index) Measure(ctx context.Context) error {
	waiting, err := deadline.Get(ctx, "semantic.index_queue", queryTimeout, func(ctx context.Context) (int64, error) {
		return x.queries.CountSearchIndexChanges(ctx, longQueue)
	})
	if err == nil {
		x.metrics.indexQueue.Set(float64(waiting))
	}
	return err
}
