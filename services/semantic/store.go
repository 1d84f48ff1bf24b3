package semantic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// errRunOver says that the run has ended: the store is rolled back.
var errRunOver = errors.New("the run is over")

// item is one numbered message: a part of a document, a deletion, or a note.
type item struct {
	no, firstNo int64
	sourceID    string                   // empty for a note
	part        *internalpb.DocumentPart // nil for a deletion
	note        *note
	vectors     [][]float32
	// poison says why the message could not be handled. It is counted, and its document fails.
	poison string
	// wholeText is the length of the document's text in bytes, for the item that makes the document whole.
	wholeText int64
	request   *internalpb.DocumentProcessRequest
}

func newItem(d delivery) *item {
	it := &item{no: d.request.Number, firstNo: d.request.Number, request: d.request}
	switch body := d.request.Body.(type) {
	case *internalpb.DocumentProcessRequest_Part:
		it.part, it.firstNo, it.sourceID = body.Part, body.Part.FirstNo, body.Part.SourceId
	case *internalpb.DocumentProcessRequest_Deletion:
		it.sourceID = body.Deletion.SourceId
	case *internalpb.DocumentProcessRequest_Checkpoint:
		it.note = &note{checkpoint: body.Checkpoint}
	case *internalpb.DocumentProcessRequest_Seen:
		it.note = &note{seen: body.Seen}
	}
	return it
}

func (it *item) chunks() []*internalpb.Chunk {
	if it.part == nil || it.part.Error != "" || it.part.KeepChunks || it.poison != "" {
		return nil
	}
	return it.part.Chunks
}

// storeItems stores messages of one try in one transaction and returns the progress of the run. Messages that are counted already
// change nothing.
func (s *Semantic) storeItems(
	ctx context.Context, try lifecycle.Try, items []*item,
) (reached progress, err error) {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.no, b.no) })
	var t storeTx
	began := time.Now()
	ctx, span := s.servers.Tracer.Within(ctx, tracing.Store)
	defer span.End()
	err = deadline.Do(ctx, "semantic.store", s.storeTimeout, func(ctx context.Context) error {
		return postgres.TxBounded(ctx, s.servers.Pool, s.held.bounds(try.Run), func(tx pgx.Tx) (err error) {
			t.giveBack() // the transaction may be repeated
			t = storeTx{tx: tx, q: s.queries.WithTx(tx), store: s.store, embedder: s.embedder.Name(), try: try, quotas: &s.quotas}
			reached, err = t.execute(ctx, items)
			return err
		})
	})
	if err != nil {
		t.giveBack()
	}
	if t.tx != nil { // Postgres has begun the transaction
		err = s.asTooSlow(ctx, try, items[0].no, began, err)
	}
	if errors.Is(err, errRunOver) {
		span.Set(tracing.Outcome("fenced"))
		s.metrics.messages.WithLabelValues(asFenced).Add(float64(len(items)))
		return progress{}, nil
	}
	if err != nil {
		span.Fail("not stored")
	} else {
		span.Set(tracing.Messages(int64(t.counted)), tracing.Chunks(t.chunks))
		s.metrics.messages.WithLabelValues(asStored).Add(float64(t.counted))
		s.metrics.messages.WithLabelValues(asDuplicate).Add(float64(len(items) - t.counted))
		s.metrics.documents.Add(float64(t.failed))
		s.metrics.stored.Add(float64(t.counted))
		s.metrics.chunks.Add(float64(t.chunks))
	}
	return reached, err
}

// storeTx is one store transaction.
type storeTx struct {
	tx       pgx.Tx
	q        *dbgen.Queries
	store    Store
	embedder string
	try      lifecycle.Try
	run      dbgen.RunOfTryRow // connector, owner and configuration of the run
	quotas   *quotas
	quota    *quota // of the run's owner
	reserved amount // taken from the quota
	fits     bool   // all items together fit in the quota, and are reserved
	// What the transaction adds, for the metrics.
	counted, chunks int
	failed          int64
	// How many more parts wait for other parts of their document.
	waiting int64
}

func (t *storeTx) execute(ctx context.Context, items []*item) (progress, error) {
	fresh, err := t.countMessages(ctx, items)
	if err != nil {
		return progress{}, err
	}
	// This is read after counting: the sweep removes what an ended run has counted, so that a late duplicate looks new.
	t.run, err = t.q.RunOfTry(ctx, dbgen.RunOfTryParams{RunID: t.try.Run, TryID: t.try.ID})
	if errors.Is(err, pgx.ErrNoRows) {
		return progress{}, errRunOver
	}
	if err != nil || len(fresh) == 0 {
		return progress{t.run.Whole, t.run.Checkpointed}, err
	}
	for _, it := range fresh {
		if it.poison != "" {
			continue
		}
		if err := checkEnvelope(it.request, t.run.ConnectorID, t.run.ConfigVersion); err != nil {
			return progress{}, err
		}
	}
	rows, err := t.lockDocuments(ctx, fresh)
	if err != nil {
		return progress{}, err
	}
	whole, err := t.wholeDocuments(ctx, fresh, rows)
	if err != nil {
		return progress{}, err
	}
	if err := t.reserveAll(ctx, rows, whole); err != nil {
		return progress{}, err
	}
	change := t.plan(fresh, rows, whole)
	if change.replacedChunks > replacedChunks && len(items) > 1 {
		return progress{}, errLarge
	}
	if err := t.store.Write(ctx, t.tx, change.pieces); err != nil {
		return progress{}, fmt.Errorf("write chunks: %w", err)
	}
	if err := t.store.Remove(ctx, t.tx, change.replaced); err != nil {
		return progress{}, fmt.Errorf("remove replaced chunks: %w", err)
	}
	if len(change.documents) > 0 {
		if err := t.writeDocuments(ctx, change.documents); err != nil {
			return progress{}, fmt.Errorf("write documents: %w", err)
		}
	}
	notes, err := t.writeNotes(ctx, fresh)
	if err != nil {
		return progress{}, err
	}
	failpoint.At("semantic.storing")
	t.counted, t.chunks, t.failed = len(fresh), len(change.pieces), change.failed
	reached, err := t.q.CountStored(ctx, dbgen.CountStoredParams{
		RunID: t.try.Run, TryID: t.try.ID, Stored: int64(len(fresh)), Processed: change.processed, Failed: change.failed,
		Deleted: change.deleted, Chunks: int64(len(change.pieces)), Notes: notes, Waiting: t.waiting, Unnamed: change.unnamed,
		Highest: fresh[len(fresh)-1].no,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return progress{}, t.notCountedError(ctx, fresh[len(fresh)-1].no)
	}
	return progress{reached.Whole, reached.Checkpointed}, err
}

// notCountedError distinguishes a run that is over from a number beyond the run's total.
func (t *storeTx) notCountedError(ctx context.Context, highest int64) error {
	run, err := t.q.RunOfTry(ctx, dbgen.RunOfTryParams{RunID: t.try.Run, TryID: t.try.ID})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errRunOver
	case err != nil:
		return err
	case run.Total != nil && *run.Total < highest:
		return fmt.Errorf("%w: number %d of a try that has %d", errRefused, highest, *run.Total)
	}
	return fmt.Errorf("number %d was not counted", highest)
}

// countMessages marks the numbers as counted and returns the items that were not counted before.
func (t *storeTx) countMessages(ctx context.Context, items []*item) ([]*item, error) {
	p := dbgen.CountMessagesParams{TryID: t.try.ID}
	for _, it := range items {
		var firstNo int64
		if it.part != nil {
			firstNo = it.firstNo
		}
		p.Nos, p.FirstNos, p.GivenUps = append(p.Nos, it.no), append(p.FirstNos, firstNo), append(p.GivenUps, it.givenUp())
		claim, brings, text := it.claim(t.try.ID), int32(0), int64(0)
		if claim != (uuid.UUID{}) {
			brings, text = int32(len(it.chunks())), it.textBytes()
		}
		p.Claims, p.Chunks, p.TextBytes = append(p.Claims, claim), append(p.Chunks, brings), append(p.TextBytes, text)
	}
	counted, err := t.q.CountMessages(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("count messages: %w", err)
	}
	isNew := make(map[int64]bool, len(counted))
	for _, no := range counted {
		isNew[no] = true
	}
	var fresh []*item
	for _, it := range items {
		if isNew[it.no] {
			isNew[it.no] = false // the same message twice in one batch
			fresh = append(fresh, it)
			if it.poison == "" && it.claim(t.try.ID) != (uuid.UUID{}) {
				t.waiting++
			}
		}
	}
	return fresh, nil
}

// lockDocuments locks the documents' rows in the order of their source ids.
func (t *storeTx) lockDocuments(ctx context.Context, items []*item) (map[string]dbgen.LockDocumentsRow, error) {
	var ids []string
	for _, it := range items {
		if it.sourceID != "" {
			ids = append(ids, it.sourceID)
		}
	}
	slices.Sort(ids)
	locked, err := t.q.LockDocuments(ctx, dbgen.LockDocumentsParams{
		ConnectorID: t.run.ConnectorID, ConfigVersion: t.run.ConfigVersion, TryID: t.try.ID, SourceIds: slices.Compact(ids),
	})
	if err != nil {
		return nil, fmt.Errorf("lock documents: %w", err)
	}
	rows := make(map[string]dbgen.LockDocumentsRow, len(locked))
	for _, row := range locked {
		rows[row.SourceID] = row
	}
	return rows, nil
}
