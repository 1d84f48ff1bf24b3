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

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/semantic/embed"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/services/semantic/internal/qdrant"
)

const (
	// turnChanges and indexPage bound what one turn brings, but for one large document, which is brought in pages.
	turnChanges, indexPage = 64, 256
	// indexLetters is from how much of a chunk's text words are taken: a request has 1 MiB, and at most 8.
	indexLetters = 16_384
)

// BringRun brings what waits of a run's connector, unless Qdrant is known to be down.
func (x *Index) BringRun(ctx context.Context, run uuid.UUID) error {
	return x.unlessDown(func() error { return x.bring(ctx, &run) })
}

// bring brings changes, a turn at a time, until none is left: of a run's connector, or all. All its errors are waits.
func (x *Index) bring(ctx context.Context, run *uuid.UUID) error {
	for more := true; more; {
		began, points := time.Now(), 0
		err := deadline.Do(ctx, "semantic.index", turnTimeout, func(ctx context.Context) error {
			// Who is frozen with the turn in hand loses it; who waits for it asks again later.
			bounds := postgres.Bounds{Lock: turnWait, Statement: turnTimeout, Idle: frozenAfter}
			return postgres.TxBounded(ctx, x.pool, bounds, func(tx pgx.Tx) (err error) {
				points, more, err = x.turn(ctx, x.queries.WithTx(tx), run)
				return err
			})
		})
		if err != nil && !errors.Is(err, errIndex) {
			err = fmt.Errorf("%w: %w", errIndex, err)
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

// turn has the index for itself: it brings the first changes, as many as have a page of chunks together, or one.
func (x *Index) turn(ctx context.Context, q *dbgen.Queries, run *uuid.UUID) (written int, more bool, err error) {
	row, err := q.TakeTurnAtSearchIndex(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, fmt.Errorf("%w: it is not made yet", errIndex)
	}
	if err != nil || row.Name != x.name {
		return 0, false, err // one of another name is kept, while a release with ours is rolled out
	}
	turn, err := q.FeedSearchIndex(ctx, x.name)
	if err != nil {
		return 0, false, err
	}
	changes, err := q.SearchIndexChanges(ctx, dbgen.SearchIndexChangesParams{RunID: run, Batch: turnChanges})
	if err != nil || len(changes) == 0 {
		return 0, false, err
	}
	to := x.qdrant.Collection(collectionName(dbgen.SearchIndexRow(row)))
	if first := changes[0]; first.DocumentID == nil {
		return 0, true, x.queue(ctx, q, to, first)
	}
	page := firstPage(changes)
	var done, documents []int64
	for _, c := range page {
		done, documents = append(done, c.Ids...), append(documents, *c.DocumentID)
	}
	if written, err = x.write(ctx, q, to, turn, page); err != nil {
		return 0, false, err
	}
	if err := to.Remove(ctx, turn, documents); err != nil {
		return 0, false, x.away(err)
	}
	failpoint.At("semantic.indexed")
	return written, len(page) < len(changes) || len(done) == turnChanges, q.ForgetSearchIndexChanges(ctx, done)
}

// queue queues the documents of a connector; or makes the collection, and queues all.
func (x *Index) queue(ctx context.Context, q *dbgen.Queries, to *qdrant.Collection, change dbgen.SearchIndexChangesRow) error {
	if change.ConnectorID == nil {
		if err := to.Create(ctx, x.name, x.embedder.Dimensions()); err != nil {
			return x.away(err)
		}
	}
	documents, err := q.QueueDocuments(ctx, change.ConnectorID)
	if err != nil {
		return err
	}
	x.log.Info("documents are brought to the search index anew", "collection", to.Name, "documents", documents)
	return q.ForgetSearchIndexChanges(ctx, change.Ids)
}

// firstPage are the first changes, of documents alone, that have no more chunks than a page, or one.
func firstPage(changes []dbgen.SearchIndexChangesRow) []dbgen.SearchIndexChangesRow {
	var chunks int32
	for i, c := range changes {
		if chunks += c.Chunks; i > 0 && (c.DocumentID == nil || chunks > indexPage) {
			return changes[:i]
		}
	}
	return changes
}

// write brings the chunks that documents show now.
func (x *Index) write(
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
			if !x.fits(row) {
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
				return written, x.away(err)
			}
		}
		written, more = written+len(points), len(rows) == indexPage
	}
	return written, nil
}

// fits says whether a vector can be a point's; one that cannot must not hold up the others.
func (x *Index) fits(row dbgen.ChunksToIndexRow) bool {
	good := len(row.Embedding) == x.embedder.Dimensions() && !slices.ContainsFunc(row.Embedding, func(f float32) bool {
		return math.IsNaN(float64(f)) || math.IsInf(float64(f), 0)
	})
	if !good {
		x.log.Warn("a chunk cannot be found by its vector: it is of another length, or no number",
			"document", row.DocumentID, "no", row.No)
	}
	return good
}
