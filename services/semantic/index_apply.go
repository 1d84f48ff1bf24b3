package semantic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
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
	// queuedDocuments is after how many documents a turn queues those of no further connector.
	queuedDocuments = 10_000
	// wholeLook is how many runs of the line are looked at between two turns: a run that waits for nothing waits for no turn of others.
	wholeLook = 1000
	// besideEvery is how often runs are completed beside a turn that goes on.
	besideEvery = time.Second
	// indexLetters is how many letters of a chunk's text are searched for words: a request has 1 MiB, and a letter takes up to 8
	// bytes of it.
	indexLetters = 16_384
)

// kind is whose changes a turn takes first. A turn for which none of its kind wait takes those that have waited longest.
type kind int

const (
	ofRuns kind = iota
	ofAll
	ofHandedOver
	kinds
)

// applyChanges applies changes to the index, turn by turn, until none is left, or the next look is due. Of three turns one is for runs that are
// whole, one for what has waited longest, whosesoever it is, and one for connectors that were handed to somebody else. A whole run is completed as soon as none of its own changes
// is left: no large run keeps small ones waiting. The next call goes on with the next kind, also after an error. Every error that it
// returns is a wait.
func (x *Index) applyChanges(ctx context.Context) error {
	began := time.Now()
	for {
		of := x.nextKind()
		runs, more := x.whole.take(wholeLook), false
		waiting, err := x.completeFound(ctx, runs)
		if err == nil {
			first := waiting[:min(turnChanges, len(waiting))]
			if of != ofRuns {
				first = nil
			}
			more, err = x.beside(ctx, func() (bool, error) { return x.takeTurn(ctx, of, first) })
		}
		turn := min(turnChanges, len(waiting))
		x.whole.add(waiting[turn:]...)
		x.whole.add(waiting[:turn]...)
		if err != nil && !errors.Is(err, errIndex) {
			err = fmt.Errorf("%w: %w", errIndex, err)
		}
		if err != nil || len(runs) == 0 && !more {
			return err
		}
		if time.Since(began) > deadline.Of(lookEvery) { // the next look is due, however many runs end
			x.notify()
			return nil
		}
	}
}

// nextKind is whose changes the next turn takes first: each kind in turn.
func (x *Index) nextKind() kind { return kind((x.turns.Add(1) - 1) % uint32(kinds)) }

// beside takes a turn, and completes runs meanwhile: a turn of a large document takes minutes, and runs that end meanwhile may have nothing to wait for.
func (x *Index) beside(ctx context.Context, take func() (more bool, err error)) (more bool, err error) {
	over := make(chan struct{})
	var completing sync.WaitGroup
	completing.Go(func() {
		tick := time.NewTicker(besideEvery)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			waiting, _ := x.completeFound(ctx, x.whole.take(wholeLook)) // where Postgres is away the turn says so
			x.whole.add(waiting...)
		}
	})
	defer completing.Wait()
	defer close(over)
	return take()
}

// completeFound completes the runs whose documents can be found, and returns those for which changes wait. What cannot be completed is
// left to the next look for stored runs.
func (x *Index) completeFound(ctx context.Context, runs []uuid.UUID) (waiting []uuid.UUID, err error) {
	if len(runs) == 0 {
		return nil, nil
	}
	whole, err := deadline.Get(ctx, "semantic.runs_to_find", queryTimeout, func(ctx context.Context) (whole []dbgen.RunsToFindRow, err error) {
		// By index: for few connectors with many changes the planner takes the whole queue to be the fastest way to the first of them,
		// also where a connector has none.
		bounds := postgres.Bounds{Lock: turnWait, Statement: queryTimeout, Idle: frozenAfter, ByIndex: true}
		err = postgres.TxBounded(ctx, x.pool, bounds, func(tx pgx.Tx) (err error) {
			whole, err = x.queries.WithTx(tx).RunsToFind(ctx, dbgen.RunsToFindParams{Name: x.name, Ids: runs})
			return err
		})
		return whole, err
	})
	if err != nil {
		return runs, err
	}
	var group errgroup.Group // lifecycle completes together what asks at once
	group.SetLimit(2 * turnChanges)
	failed := make(chan error, len(whole))
	for _, run := range whole {
		if !run.Found {
			waiting = append(waiting, run.ID)
			continue
		}
		group.Go(func() error {
			if err := x.complete(ctx, run.ID); err != nil {
				failed <- fmt.Errorf("session %s: %w", run.ID, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	if n := len(failed); n > 0 && ctx.Err() == nil { // where Postgres is away the turn says so
		x.log.Warn("runs could not be completed; they are tried again", "runs", n, "err", <-failed)
	}
	return waiting, nil
}

// takeTurn applies the first changes of a kind, or of all; those of runs are of these runs, in turns. It says whether more may wait.
func (x *Index) takeTurn(ctx context.Context, of kind, runs []uuid.UUID) (more bool, err error) {
	began, points := time.Now(), 0
	err = deadline.Do(ctx, "semantic.index", turnTimeout, func(ctx context.Context) error {
		// A process that is frozen during its turn loses it. A process that waits for the turn asks again later.
		bounds := postgres.Bounds{Lock: turnWait, Statement: turnTimeout, Idle: frozenAfter}
		return postgres.TxBounded(ctx, x.pool, bounds, func(tx pgx.Tx) (err error) {
			points, more, err = x.applyTurn(ctx, x.queries.WithTx(tx), of, runs)
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
func (x *Index) applyTurn(ctx context.Context, q *dbgen.Queries, of kind, runs []uuid.UUID) (written int, more bool, err error) {
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
	var handed []int32
	if of == ofHandedOver {
		if handed, err = x.handedOver(ctx, q); err != nil {
			return 0, false, err
		}
	}
	changes, err := q.SearchIndexChanges(ctx, dbgen.SearchIndexChangesParams{RunIds: runs, HandedOver: handed, Batch: turnChanges})
	if err != nil || len(changes) == 0 {
		return 0, false, err
	}
	to := x.qdrant.Collection(search.CollectionName(row.Name, row.Generation))
	first, page := changes[0], firstPage(changes)
	if first.DocumentID == nil {
		page = changes[:1]
	}
	if len(handed) > 0 && first.ConnectorID != nil {
		x.handed.Store(*page[min(len(handed), len(page))-1].ConnectorID) // each of them has one before any has two
	}
	if first.DocumentID == nil {
		last, err := x.queueDocuments(ctx, q, to, changes)
		if err == nil && len(handed) > 0 && last != nil {
			x.handed.Store(*last)
		}
		return 0, true, err
	}
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
	return written, len(page) < len(changes) || len(done) == turnChanges || len(handed) > 0, q.ForgetSearchIndexChanges(ctx, done)
}

// handedOver are the next connectors that were handed to somebody else, and whose points do not all say so yet.
func (x *Index) handedOver(ctx context.Context, q *dbgen.Queries) ([]int32, error) {
	next, err := q.HandedOver(ctx, dbgen.HandedOverParams{After: x.handed.Load(), Most: turnChanges})
	if err == nil && len(next) == 0 {
		next, err = q.HandedOver(ctx, dbgen.HandedOverParams{After: 0, Most: turnChanges})
	}
	return next, err
}

// queueDocuments queues the documents of the connectors whose changes come first, and says which one was the last. For a change without a connector it creates the collection and queues all
// documents.
func (x *Index) queueDocuments(ctx context.Context, q *dbgen.Queries, to *qdrant.Collection, changes []dbgen.SearchIndexChangesRow) (last *int32, err error) {
	var done []int64
	var queued int64
	for _, c := range changes {
		if c.DocumentID != nil || queued >= queuedDocuments {
			break
		}
		if c.ConnectorID == nil {
			if err := to.Create(ctx, x.name, x.embedder.Dimensions()); err != nil {
				return nil, x.unavailable(err)
			}
		}
		n, err := q.QueueDocuments(ctx, c.ConnectorID)
		if err != nil {
			return nil, err
		}
		queued, last, done = queued+n, c.ConnectorID, append(done, c.Ids...)
		if c.ConnectorID == nil {
			break
		}
	}
	x.log.Info("documents are written to the search index again", "collection", to.Name, "documents", queued)
	return last, q.ForgetSearchIndexChanges(ctx, done)
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
