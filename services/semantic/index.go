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
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/services/semantic/embed"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/services/semantic/internal/qdrant"
)

const (
	// lookEvery is how often the index looks whether its collection is there, and for changes that nobody told it of.
	lookEvery = 5 * time.Second
	// handoverAfter is how long nobody keeps an index before one of another name replaces it, and abandonedAfter before it
	// is forgotten, or filled anew by who keeps it again.
	handoverAfter, abandonedAfter = time.Minute, 10 * time.Minute
	// indexBatch is how many changes are brought in one transaction, indexPage how many chunks in one request, and
	// indexLetters from how much of a chunk's text words are taken: a request has 2 MiB, and at most a third of the 32 MiB
	// that Qdrant takes.
	indexBatch, indexPage, indexLetters = 64, 256, 16_384
	// indexTimeout bounds such a transaction: a request for each page of 64 large documents.
	indexTimeout = 2 * time.Minute
	// fillTimeout bounds queueing every document.
	fillTimeout = 10 * time.Minute
	// longQueue is how far the changes that wait are counted.
	longQueue = 100_000
)

var (
	// errIndex says that the index could not be asked; it is a wait.
	errIndex = errors.New("the search index is away")
	errDown  = fmt.Errorf("%w: it was a moment ago", errIndex)
)

// Index keeps a collection of Qdrant as Postgres says:
//
//	documents ──trigger──▶ search_index_changes ──one at a time──▶ what the document shows now ──▶ Qdrant
//
// Postgres has every vector. What is brought again, or in another order, ends in the same collection, and one that is lost
// is filled again. A point that outlives its chunk is no hit, since hits are read from Postgres.
type Index struct {
	pool       *pgxpool.Pool
	queries    *dbgen.Queries
	embedder   Embedder
	collection *qdrant.Collection
	metrics    *metrics
	log        *slog.Logger
	stored     chan struct{} // something was
	dimensions atomic.Int64  // 0: not known yet
	// down says that the last look failed; nobody but the next look asks Qdrant then, so that no worker waits for it.
	down atomic.Bool
}

func newIndex(cfg config.Qdrant, pool *pgxpool.Pool, embedder Embedder, metrics *metrics, log *slog.Logger) *Index {
	collection := newCollection(cfg, embedder)
	return &Index{
		pool: pool, queries: dbgen.New(pool), embedder: embedder, collection: collection, metrics: metrics,
		log: log.With("collection", collection.Name), stored: make(chan struct{}, 1),
	}
}

// kick says that there may be changes.
func (x *Index) kick() {
	select {
	case x.stored <- struct{}{}:
	default:
	}
}

// run keeps the index until ctx ends.
func (x *Index) run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	step := x.Look
	for {
		if err := step(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errDown) {
			x.log.Warn("the search index is behind; tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-x.stored:
			step = func(ctx context.Context) error { return x.BringUnlessDown(ctx, uuid.Nil) }
		case <-ticker.C:
			step = x.Look
		}
	}
}

// Look makes the collection where it is missing, and brings every change that waits.
func (x *Index) Look(ctx context.Context) error {
	err := x.keep(ctx)
	x.down.Store(err != nil)
	return errors.Join(err, x.measure(ctx))
}

func (x *Index) keep(ctx context.Context) error {
	dimensions, err := x.askDimensions(ctx)
	if err != nil {
		return err
	}
	if err := x.begin(ctx); err != nil {
		return err
	}
	err = x.collection.Check(ctx, dimensions)
	if errors.Is(err, qdrant.ErrMissing) {
		err = x.setFilled(ctx, false)
	}
	if err != nil {
		return x.away(err)
	}
	if err := x.fill(ctx, dimensions); err != nil {
		return err
	}
	return x.Bring(ctx, uuid.Nil)
}

func (x *Index) measure(ctx context.Context) error {
	waiting, err := deadline.Get(ctx, "semantic.index_queue", queryTimeout, func(ctx context.Context) (int64, error) {
		return x.queries.CountSearchIndexChanges(ctx, longQueue)
	})
	x.metrics.indexQueue.Set(float64(waiting))
	return err
}

// askDimensions asks the embedder once.
func (x *Index) askDimensions(ctx context.Context) (int, error) {
	if known := x.dimensions.Load(); known > 0 {
		return int(known), nil
	}
	vectors, err := deadline.Get(ctx, "semantic.embed", embedTimeout, func(ctx context.Context) ([][]float32, error) {
		return x.embedder.Embed(ctx, []string{"dimensions"})
	})
	if err == nil && len(vectors) != 1 {
		err = fmt.Errorf("%d vectors for one text", len(vectors))
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errEmbedder, err)
	}
	x.dimensions.Store(int64(len(vectors[0])))
	return len(vectors[0]), nil
}

// begin says that this index is kept; from then on documents that change are noted.
func (x *Index) begin(ctx context.Context) error {
	return deadline.Do(ctx, "semantic.index_begin", queryTimeout, func(ctx context.Context) error {
		fed, err := x.queries.FeedSearchIndex(ctx, dbgen.FeedSearchIndexParams{Name: x.collection.Name, Abandoned: abandonedAfter})
		if err != nil || fed > 0 {
			return err
		}
		return postgres.Tx(ctx, x.pool, func(tx pgx.Tx) error {
			q := x.queries.WithTx(tx)
			if err := q.LockDocumentsTable(ctx); err != nil {
				return err
			}
			_, err := q.BeginSearchIndex(ctx, dbgen.BeginSearchIndexParams{
				Name: x.collection.Name, Handover: handoverAfter, Abandoned: abandonedAfter,
			})
			return err
		})
	})
}

// fill makes the collection anew and queues every document, unless it is filled.
func (x *Index) fill(ctx context.Context, dimensions int) error {
	return x.inTurn(ctx, "semantic.index_fill", fillTimeout, func(ctx context.Context, q *dbgen.Queries) error {
		row, err := q.SearchIndex(ctx)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && (row.Filled || row.Name != x.collection.Name) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := x.collection.Create(ctx, dimensions); err != nil {
			return x.away(err)
		}
		if err := q.EmptySearchIndexChanges(ctx); err != nil {
			return err
		}
		documents, err := q.QueueEveryDocument(ctx)
		if err != nil {
			return err
		}
		x.log.Info("the search index is filled anew", "documents", documents)
		return q.SetSearchIndexFilled(ctx, dbgen.SetSearchIndexFilledParams{Name: x.collection.Name, Filled: true})
	})
}

func (x *Index) setFilled(ctx context.Context, filled bool) error {
	return deadline.Do(ctx, "semantic.index_state", queryTimeout, func(ctx context.Context) error {
		return x.queries.SetSearchIndexFilled(ctx, dbgen.SetSearchIndexFilledParams{Name: x.collection.Name, Filled: filled})
	})
}

// BringUnlessDown is Bring; while Qdrant is known to be down it returns an error at once.
func (x *Index) BringUnlessDown(ctx context.Context, session uuid.UUID) error {
	if x.down.Load() {
		return errDown
	}
	err := x.Bring(ctx, session)
	if err != nil && ctx.Err() == nil {
		x.down.Store(true)
	}
	return err
}

// Bring brings the changes that wait to the collection: those of one run, or of all if it is nil.
func (x *Index) Bring(ctx context.Context, session uuid.UUID) error {
	for more := true; more; {
		began := time.Now()
		points := 0
		err := x.inTurn(ctx, "semantic.index", indexTimeout, func(ctx context.Context, q *dbgen.Queries) (err error) {
			points, more, err = x.bring(ctx, q, session)
			return err
		})
		if errors.Is(err, qdrant.ErrMissing) {
			err = errors.Join(err, x.setFilled(ctx, false))
		}
		if err != nil {
			return err
		}
		if points > 0 {
			x.metrics.points.Add(float64(points))
			x.metrics.indexing.Observe(time.Since(began).Seconds())
		}
	}
	return nil
}

// inTurn runs a transaction that has the index for itself.
func (x *Index) inTurn(ctx context.Context, name string, after time.Duration, work func(context.Context, *dbgen.Queries) error) error {
	return deadline.Do(ctx, name, after, func(ctx context.Context) error {
		return postgres.Tx(ctx, x.pool, func(tx pgx.Tx) error {
			q := x.queries.WithTx(tx)
			err := deadline.Do(ctx, "semantic.index_turn", queryTimeout, q.AwaitTurnAtSearchIndex)
			if err != nil {
				return fmt.Errorf("%w: %w", errIndex, err)
			}
			return work(ctx, q)
		})
	})
}

// bring brings a batch of changes, and says of how many points, and whether there may be more.
func (x *Index) bring(ctx context.Context, q *dbgen.Queries, session uuid.UUID) (points int, more bool, err error) {
	row, err := q.SearchIndex(ctx)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && row.Name == x.collection.Name && !row.Filled:
		return 0, false, fmt.Errorf("%w: it is not made yet", errIndex)
	case err != nil:
		return 0, false, err
	case row.Name != x.collection.Name:
		return 0, false, nil // a release with another one is being rolled out, or away
	}
	var changes []int64
	if session == uuid.Nil {
		changes, err = q.SearchIndexChanges(ctx, indexBatch)
	} else {
		changes, err = q.SearchIndexChangesOf(ctx, dbgen.SearchIndexChangesOfParams{Session: &session, Batch: indexBatch})
	}
	if err != nil || len(changes) == 0 {
		return 0, false, err
	}
	documents, err := q.ChangedDocuments(ctx, changes)
	if err != nil {
		return 0, false, err
	}
	shown := newShowing(documents)
	turn, err := q.TurnAtSearchIndex(ctx)
	if err != nil {
		return 0, false, err
	}
	if points, err = x.write(ctx, q, turn, shown); err != nil {
		return 0, false, err
	}
	if err := x.collection.KeepOnly(ctx, turn, shown.documents, shown.versions); err != nil {
		return 0, false, x.away(err)
	}
	failpoint.At("semantic.indexed")
	return points, len(changes) == indexBatch, q.ForgetSearchIndexChanges(ctx, changes)
}

// write brings the chunks that documents show.
func (x *Index) write(ctx context.Context, q *dbgen.Queries, turn int64, shown showing) (written int, err error) {
	next := dbgen.ChunksToIndexParams{
		Sessions: shown.sessions, FirstNos: shown.firstNos, Ids: shown.ids, Embedder: x.embedder.Name(),
		Letters: indexLetters, Page: indexPage, AfterNo: -1,
	}
	for full := true; full; {
		rows, err := q.ChunksToIndex(ctx, next)
		if err != nil {
			return written, err
		}
		full = len(rows) == indexPage
		points := make([]qdrant.Point, len(rows))
		for i, row := range rows {
			key := Key{Session: row.Session, FirstNo: row.FirstNo, DocumentID: row.DocumentID}
			points[i] = qdrant.Point{ID: pointID(key, row.No), Vector: row.Embedding, Payload: qdrant.Payload{
				ConnectorID: shown.connectors[row.DocumentID], DocumentID: row.DocumentID, Version: version(key), No: row.No,
				Turn: turn, Words: embed.Words(row.Text),
			}}
			next.AfterSession, next.AfterFirstNo, next.AfterDocument, next.AfterNo = row.Session, row.FirstNo, row.DocumentID, row.No
		}
		if len(points) > 0 {
			if err := x.collection.Upsert(ctx, points); err != nil {
				return written, x.away(err)
			}
		}
		written += len(points)
	}
	return written, nil
}

// away counts an answer that did not come, and makes it a wait.
func (x *Index) away(err error) error {
	x.metrics.indexErrors.Inc()
	return fmt.Errorf("%w: %w", errIndex, err)
}
