package semantic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/qdrant"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// lookEvery is how often the index checks that its collection exists, and reads changes that it was not notified of.
	lookEvery = 5 * time.Second
	// handoverAfter is how long after its last keeper an index may be replaced by one of another name; abandonedAfter is when it is
	// forgotten, or filled anew by its next keeper.
	handoverAfter, abandonedAfter = time.Minute, 10 * time.Minute
	// turnWait is how long a process waits for its turn, and frozenAfter how long a turn may be idle: two slow requests.
	turnWait, frozenAfter = 5 * time.Second, 18 * time.Second
	// turnTimeout bounds a turn: a request for each page of the largest document, or queueing every document.
	turnTimeout = 5 * time.Minute
	// longQueue is up to where waiting changes are counted.
	longQueue = 100_000
)

var (
	// errIndex says that the index did not answer; it is a wait.
	errIndex = errors.New("the search index is away")
	errDown  = fmt.Errorf("%w: it was a moment ago", errIndex)
)

// Index keeps a collection of Qdrant as Postgres says:
//
//	documents, connectors ──trigger──▶ search_index_changes ──one at a time──▶ what the document shows now ──▶ Qdrant
//
// Postgres has every vector. Applying changes again, or in another order, gives the same collection, and a lost collection is
// filled again. A point that outlives its chunk is no hit, since hits are read from Postgres.
type Index struct {
	pool     *pgxpool.Pool
	queries  *dbgen.Queries
	embedder Embedder
	qdrant   *qdrant.Client
	name     string
	metrics  *metrics
	log      *slog.Logger

	// complete completes a run whose documents can be found.
	complete func(context.Context, uuid.UUID) error
	whole    wholeRuns
	notified chan struct{}
	// turns counts the turns since the process began. It says whose changes the next one takes first.
	turns atomic.Uint32
	// handed is the last connector handed to somebody else that had a turn.
	handed atomic.Int32
	// down says that the index did not answer the last time. Then only the next look asks it.
	down atomic.Bool
}

func newIndex(
	cfg config.Qdrant, pool *pgxpool.Pool, embedder Embedder, metrics *metrics, log *slog.Logger, complete func(context.Context, uuid.UUID) error,
) *Index {
	name := search.IndexName(cfg, embedder)
	return &Index{
		pool: pool, queries: dbgen.New(pool), embedder: embedder, qdrant: qdrant.New(cfg), name: name, metrics: metrics,
		log: log.With("index", name), complete: complete, notified: make(chan struct{}, 1),
	}
}

// notify says that documents were stored, and names runs whose documents are all stored: they are completed once they can be found.
func (x *Index) notify(whole ...uuid.UUID) {
	x.whole.add(whole...)
	select {
	case x.notified <- struct{}{}:
	default:
	}
}

// run keeps the index current until ctx ends, and completes runs whose documents can be found.
func (x *Index) run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	step := x.Look
	for {
		err := step(ctx)
		switch {
		case err == nil || ctx.Err() != nil || errors.Is(err, errDown):
		case postgres.Locked(err):
			x.log.Info("somebody else has the turn of the search index; tried again", "err", err)
		default:
			x.log.Warn("the search index is behind; tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-x.notified:
			step = x.catchUp
		case <-ticker.C:
			step = x.Look
		}
	}
}

// catchUp applies every change that waits, unless that failed a moment ago. What fails is left to the next look.
func (x *Index) catchUp(ctx context.Context) error {
	if x.down.Load() {
		return errDown
	}
	err := x.applyChanges(ctx)
	x.down.Store(isAwayIndex(err))
	return err
}

// Look creates a missing collection, and applies every change that waits.
func (x *Index) Look(ctx context.Context) error {
	err := x.fill(ctx)
	if errors.Is(err, qdrant.ErrMissing) {
		err = x.fill(ctx)
	}
	x.down.Store(isAwayIndex(err))
	return err
}

// isAwayIndex says whether an error is more than somebody else's turn.
func isAwayIndex(err error) bool { return err != nil && !postgres.Locked(err) }

// fill applies the changes that wait, and then checks that the collection exists. A missing collection is forgotten; the next one
// has another name.
func (x *Index) fill(ctx context.Context) error {
	row, err := deadline.Get(ctx, "semantic.index_begin", queryTimeout, x.register)
	if err != nil {
		return err
	}
	if err = x.applyChanges(ctx); err == nil && row.Name == x.name {
		err = x.unavailable(x.qdrant.Collection(search.CollectionName(row.Name, row.Generation)).Check(ctx, x.embedder.Dimensions()))
	}
	if errors.Is(err, qdrant.ErrMissing) {
		x.log.Warn("the search index is lost", "collection", search.CollectionName(row.Name, row.Generation))
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

// register makes this index the kept one, unless an index of another name is kept. From then on changed documents are recorded.
func (x *Index) register(ctx context.Context) (dbgen.SearchIndexRow, error) {
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
	// New stores would queue behind a transaction that waits for the table lock.
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

// unavailable counts a call that failed, and makes its error a wait.
func (x *Index) unavailable(err error) error {
	if err == nil {
		return nil
	}
	x.metrics.indexErrors.Inc()
	return fmt.Errorf("%w: %w", errIndex, err)
}

// Measure counts the changes that wait.
func (x *Index) Measure(ctx context.Context) error {
	waiting, err := deadline.Get(ctx, "semantic.index_queue", queryTimeout, func(ctx context.Context) (int64, error) {
		return x.queries.CountSearchIndexChanges(ctx, longQueue)
	})
	if err == nil {
		x.metrics.indexQueue.Set(float64(waiting))
	}
	return err
}
