package semantic

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/services/semantic/embed"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/services/semantic/internal/qdrant"
)

const (
	// turnDocuments and turnChunks bound what is brought in one turn, but for one large document.
	turnDocuments, turnChunks = 64, 4096
	// indexPage is how many chunks one request carries, and indexLetters from how much of a chunk's text words are taken: a
	// request has 2 MiB, and at most a third of the 32 MiB that Qdrant takes.
	indexPage, indexLetters = 256, 16_384
)

// BringRun brings what waits of a run's connector, unless Qdrant is known to be down.
func (x *Index) BringRun(ctx context.Context, run uuid.UUID) error {
	return x.unlessDown(func() error {
		return x.turns(ctx, func(ctx context.Context, q *dbgen.Queries) ([]int64, error) {
			return q.SearchIndexChangesBefore(ctx, dbgen.SearchIndexChangesBeforeParams{RunID: run, Batch: turnDocuments})
		})
	})
}

func (x *Index) bringAll(ctx context.Context) error {
	return x.turns(ctx, func(ctx context.Context, q *dbgen.Queries) ([]int64, error) {
		return q.SearchIndexChanges(ctx, turnDocuments)
	})
}

// turns brings changes, a turn at a time, until none is left.
func (x *Index) turns(ctx context.Context, waiting func(context.Context, *dbgen.Queries) ([]int64, error)) error {
	for more := true; more; {
		began, points := time.Now(), 0
		err := x.inTurn(ctx, "semantic.index", turnTimeout, func(ctx context.Context, q *dbgen.Queries) error {
			more = false
			row, ours, err := x.ours(ctx, q)
			if err != nil || !ours {
				return err // one of another name is kept, while a release with ours is rolled out
			}
			if !row.Filled {
				return errIndex
			}
			changes, err := waiting(ctx, q)
			if err != nil || len(changes) == 0 {
				return err
			}
			var brought int
			points, brought, err = x.bring(ctx, q, x.qdrant.Collection(collectionName(row)), changes)
			more = brought == turnDocuments || brought < len(changes)
			return err
		})
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

// bring brings changes to the collection, and says of how many points, and how many changes these were: the first of them.
func (x *Index) bring(
	ctx context.Context, q *dbgen.Queries, to *qdrant.Collection, changes []int64,
) (points, brought int, err error) {
	if _, err := q.FeedSearchIndex(ctx, dbgen.FeedSearchIndexParams{Name: x.name, Abandoned: abandonedAfter}); err != nil {
		return 0, 0, err
	}
	turn, err := q.TurnAtSearchIndex(ctx)
	if err != nil {
		return 0, 0, err
	}
	rows, err := q.ChangedDocuments(ctx, changes)
	if err != nil {
		return 0, 0, err
	}
	shown := newShowing(rows, turnChunks)
	for rest := shown.documents; len(rest) > 0; {
		group := firstPage(rest)
		written, err := x.write(ctx, q, to, turn, group)
		if err != nil {
			return 0, 0, err
		}
		points += written
		rest = rest[len(group):]
	}
	if err := to.KeepOnly(ctx, turn, shown.ids, shown.versions); err != nil {
		return 0, 0, x.away(err)
	}
	failpoint.At("semantic.indexed")
	return points, len(shown.changes), q.ForgetSearchIndexChanges(ctx, shown.changes)
}

// write brings the chunks of one document, however many, or of several that fit into a page.
func (x *Index) write(ctx context.Context, q *dbgen.Queries, to *qdrant.Collection, turn int64, group []shownDocument) (written int, err error) {
	p := dbgen.ChunksToIndexParams{Embedder: x.embedder.Name(), Letters: indexLetters, Page: indexPage, AfterNo: -1}
	connectors := map[int64]int32{}
	for _, d := range group {
		p.TryIds, p.FirstNos, p.Ids = append(p.TryIds, d.Try), append(p.FirstNos, d.FirstNo), append(p.Ids, d.DocumentID)
		connectors[d.DocumentID] = d.connector
	}
	for {
		rows, err := q.ChunksToIndex(ctx, p)
		if err != nil {
			return written, err
		}
		var points []qdrant.Point
		for _, row := range rows {
			p.AfterNo = row.No
			if !x.fits(row) {
				continue
			}
			key := Key{Try: row.TryID, FirstNo: row.FirstNo, DocumentID: row.DocumentID}
			points = append(points, qdrant.Point{ID: pointID(key, row.No), Vector: row.Embedding, Payload: qdrant.Payload{
				ConnectorID: connectors[row.DocumentID], DocumentID: row.DocumentID, Version: version(key), No: row.No,
				Turn: turn, Words: embed.Words(row.Text),
			}})
		}
		if len(points) > 0 {
			if err := to.Upsert(ctx, points); err != nil {
				return written, x.away(err)
			}
		}
		written += len(points)
		if len(rows) < indexPage {
			return written, nil
		}
		if len(group) > 1 { // they have more chunks than they say
			return written, x.writeEach(ctx, q, to, turn, group)
		}
	}
}

func (x *Index) writeEach(ctx context.Context, q *dbgen.Queries, to *qdrant.Collection, turn int64, group []shownDocument) error {
	for i := range group {
		if _, err := x.write(ctx, q, to, turn, group[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// fits says whether a vector can be a point's; one that cannot must not hold up the others.
func (x *Index) fits(row dbgen.ChunksToIndexRow) bool {
	good := len(row.Embedding) == int(x.dimensions.Load()) && !slices.ContainsFunc(row.Embedding, func(f float32) bool {
		return math.IsNaN(float64(f)) || math.IsInf(float64(f), 0)
	})
	if !good {
		x.log.Warn("a chunk cannot be found by its vector: it is of another length, or no number",
			"try", row.TryID, "document", row.DocumentID, "no", row.No)
	}
	return good
}
