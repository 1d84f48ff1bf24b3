package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/internal/search/qdrant"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// turnChanges and indexPage bound what one turn writes. One large document is written in several pages.
	turnChanges, indexPage = 64, 256
	// indexLetters is how many letters of a chunk's text are searched for words: a request has 1 MiB, and a letter takes up to 8
	// bytes of it.
	indexLetters = 16_384
)

// applyChanges applies changes to the index, turn by turn, until none is left. Those of runs that are whole come before others, and such
// a run is completed as soon as none of its own is left: no large run keeps small ones waiting. Every error that it returns is a wait.
func (x *Index) applyChanges(ctx context.Context) error {
	for {
		runs, more := x.whole.take(turnChanges), false
		waiting, err := x.completeFound(ctx, runs)
		if err == nil {
			more, err = x.takeTurn(ctx, waiting)
		}
		x.whole.add(waiting...)
		if err != nil && !errors.Is(err, errIndex) {
			err = fmt.Errorf("%w: %w", errIndex, err)
		}
		if err != nil || len(runs) == 0 && !more {
			return err
		}
	}
}

// completeFound completes the runs whose documents can be found, and returns those for which changes wait. What cannot be completed is
// left to the next look for stored runs.
func (x *Index) completeFound(ctx context.Context, runs []uuid.UUID) (waiting []uuid.UUID, err error) {
	if len(runs) == 0 {
		return nil, nil
	}
	whole, err := deadline.Get(ctx, "semantic.runs_to_find", queryTimeout, func(ctx context.Context) ([]dbgen.RunsToFindRow, error) {
		return x.queries.RunsToFind(ctx, dbgen.RunsToFindParams{Name: x.name, Ids: runs})
	})
	if err != nil {
		return runs, err
	}
	var group errgroup.Group // lifecycle completes together what asks at once
	for _, run := range whole {
		if !run.Found {
			waiting = append(waiting, run.ID)
			continue
		}
		group.Go(func() error {
			err := x.complete(ctx, run.ID)
			if err == nil || isWait(err) || ctx.Err() != nil {
				return err
			}
			x.log.Warn("a run could not be completed; it is tried again", "session", run.ID, "err", err)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return runs, err
	}
	return waiting, nil
}

// takeTurn applies the first changes of runs, in turns, or, for no runs, the first of all. It says whether more may wait.
func (x *Index) takeTurn(ctx context.Context, runs []uuid.UUID) (more bool, err error) {
	began, points := time.Now(), 0
	err = deadline.Do(ctx, "semantic.index", turnTimeout, func(ctx context.Context) error {
		// A process that is frozen during its turn loses it. A process that waits for the turn asks again later.
		bounds := postgres.Bounds{Lock: turnWait, Statement: turnTimeout, Idle: frozenAfter}
		return postgres.TxBounded(ctx, x.pool, bounds, func(tx pgx.Tx) (err error) {
			points, more, err = x.applyTurn(ctx, x.queries.WithTx(tx), runs)
			return err
		})
	})
	if err == nil && points > 0 {
		x.metrics.points.Add(float64(points))
		x.metrics.indexing.Observe(time.Since(began).Seconds())
	}
	return more, err
}

// applyTurn applies the first changes, up to one page of chunks, or one document that is larger. No other process writes to the
// index meanwhile.
func (x *Index) applyTurn(ctx context.Context, q *dbgen.Queries, runs []uuid.UUID) (written int, more bool, err error) {
	row, err := q.TakeTurnAtSearchIndex(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, fmt.Errorf("%w: it is not made yet", errIndex)
	}
	if err != nil || row.Name != x.name {
		return 0, false, err // the index has another name, while a release with ours is rolled out
	}
	turn, err := q.FeedSearchIndex(ctx, x.name)
	if err != nil {
		return 0, false, err
	}
	changes, err := q.SearchIndexChanges(ctx, dbgen.SearchIndexChangesParams{RunIds: runs, Batch: turnChanges})
	if err != nil || len(changes) == 0 {
		return 0, false, err
	}
	to := x.qdrant.Collection(search.CollectionName(row.Name, row.Generation))
	if first := changes[0]; first.DocumentID == nil {
		return 0, true, x.queueDocuments(ctx, q, to, first)
	}
	page := firstPage(changes)
	var done, documents []int64
	for _, c := range page {
		done, documents = append(done, c.Ids...), append(documents, *c.DocumentID)
	}
	if written, err = x.upsertChunks(ctx, q, to, turn, page); err != nil {
		return 0, false, err
	}
	if err := to.Remove(ctx, turn, documents); err != nil {
		return 0, false, x.unavailable(err)
	}
	failpoint.At("semantic.indexed")
	return written, len(page) < len(changes) || len(done) == turnChanges, q.ForgetSearchIndexChanges(ctx, done)
}

// queueDocuments queues the documents of one connector. For a change without a connector it creates the collection and queues all
// documents.
func (x *Index) queueDocuments(ctx context.Context, q *dbgen.Queries, to *qdrant.Collection, change dbgen.SearchIndexChangesRow) error {
	if change.ConnectorID == nil {
		if err := to.Create(ctx, x.name, x.embedder.Dimensions()); err != nil {
			return x.unavailable(err)
		}
	}
	documents, err := q.QueueDocuments(ctx, change.ConnectorID)
	if err != nil {
		return err
	}
	x.log.Info("documents are written to the search index again", "collection", to.Name, "documents", documents)
	return q.ForgetSearchIndexChanges(ctx, change.Ids)
}

// firstPage returns the first document changes, up to one page of chunks, or one document that is larger.
func firstPage(changes []dbgen.SearchIndexChangesRow) []dbgen.SearchIndexChangesRow {
	var chunks int32
	for i, c := range changes {
		if chunks += c.Chunks; i > 0 && (c.DocumentID == nil || chunks > indexPage) {
			return changes[:i]
		}
	}
	return changes
}

// upsertChunks writes the chunks that the documents show now.
func (x *Index) upsertChunks(
	ctx context.Context, q *dbgen.Queries, to *qdrant.Collection, turn int64, changes []dbgen.SearchIndexChangesRow,
) (written int, err error) {
	p := dbgen.ChunksToIndexParams{Embedder: x.embedder.Name(), Letters: indexLetters, Page: indexPage, AfterNo: -1}
	shown := map[int64]dbgen.SearchIndexChangesRow{}
	for _, c := range changes {
		if c.TryID != nil && c.FirstNo != nil {
			shown[*c.DocumentID] = c
			p.TryIds, p.FirstNos, p.Ids = append(p.TryIds, *c.TryID), append(p.FirstNos, *c.FirstNo), append(p.Ids, *c.DocumentID)
		}
	}
	for more := len(p.Ids) > 0; more; {
		rows, err := q.ChunksToIndex(ctx, p)
		if err != nil {
			return written, err
		}
		var points []qdrant.Point
		for _, row := range rows {
			p.AfterID, p.AfterNo = row.DocumentID, row.No
			if !x.isIndexable(row) {
				continue
			}
			c := shown[row.DocumentID]
			points = append(points, qdrant.Point{
				Scope: c.Scope, ConnectorID: *c.ConnectorID, DocumentID: row.DocumentID, TryID: *c.TryID, FirstNo: *c.FirstNo, No: row.No,
				Words: embed.Words(row.Text), Vector: row.Embedding,
			})
		}
		if len(points) > 0 {
			if err := to.Upsert(ctx, turn, points); err != nil {
				return written, x.unavailable(err)
			}
		}
		written, more = written+len(points), len(rows) == indexPage
	}
	return written, nil
}

// isIndexable says whether a vector can become a point. A bad vector must not hold up the others.
func (x *Index) isIndexable(row dbgen.ChunksToIndexRow) bool {
	good := len(row.Embedding) == x.embedder.Dimensions() && !slices.ContainsFunc(row.Embedding, func(f float32) bool {
		return math.IsNaN(float64(f)) || math.IsInf(float64(f), 0)
	})
	if !good {
		x.log.Warn("a chunk cannot be found by its vector: it is of another length, or no number",
			"document", row.DocumentID, "no", row.No)
	}
	return good
}
