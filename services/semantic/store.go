package semantic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// storeBounds bound a store transaction: who waits for a row that somebody holds hands its messages back, and a process that
// freezes loses its locks.
var storeBounds = postgres.Bounds{Lock: 1500 * time.Millisecond, Statement: storeTimeout, Idle: 10 * time.Second}

// errRunOver says that the run has ended: what was about to be stored is rolled back.
var errRunOver = errors.New("the run is over")

// item is one numbered message: a part of a document, a deletion, or a note.
type item struct {
	no, firstNo int64
	sourceID    string                   // empty for a note
	part        *internalpb.DocumentPart // nil for a deletion
	note        *note
	vectors     [][]float32
	// poison says why the message itself could not be handled; it is counted, and its document fails.
	poison  string
	request *internalpb.DocumentProcessRequest
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

// storeItems stores messages of one try in one transaction and says how far the run has come with them. Those
// that are counted already change nothing.
func (s *Semantic) storeItems(
	ctx context.Context, try lifecycle.Try, items []*item,
) (come progress, err error) {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.no, b.no) })
	var t storing
	ctx, span := s.servers.Tracer.Within(ctx, tracing.Store)
	defer span.End()
	err = deadline.Do(ctx, "semantic.store", s.storeTimeout, func(ctx context.Context) error {
		return postgres.TxBounded(ctx, s.servers.Pool, storeBounds, func(tx pgx.Tx) (err error) {
			t = storing{tx: tx, q: s.queries.WithTx(tx), store: s.store, embedder: s.embedder.Name(), try: try}
			come, err = t.all(ctx, items)
			return err
		})
	})
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
	return come, err
}

// storing is one store transaction.
type storing struct {
	tx       pgx.Tx
	q        *dbgen.Queries
	store    Store
	embedder string
	try      lifecycle.Try
	run      dbgen.RunOfTryRow // what the run says of itself: whose it is, and of which configuration
	// What the transaction adds, for the metrics.
	counted, chunks int
	failed          int64
}

func (t *storing) all(ctx context.Context, items []*item) (progress, error) {
	fresh, err := t.count(ctx, items)
	if err != nil {
		return progress{}, err
	}
	// Asked after counting: the sweep forgets what an ended run has counted, so that a late duplicate looks new.
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
		if err := checkEnvelope(it.request, t.run); err != nil {
			return progress{}, err
		}
	}
	rows, err := t.lock(ctx, fresh)
	if err != nil {
		return progress{}, err
	}
	whole, err := t.wholeDocuments(ctx, fresh)
	if err != nil {
		return progress{}, err
	}
	change := t.plan(fresh, rows, whole)
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
	come, err := t.q.CountStored(ctx, dbgen.CountStoredParams{
		RunID: t.try.Run, TryID: t.try.ID, Stored: int64(len(fresh)), Processed: change.processed, Failed: change.failed,
		Deleted: change.deleted, Chunks: int64(len(change.pieces)), Notes: notes, Unnamed: change.unnamed,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return progress{}, errRunOver
	}
	return progress{come.Whole, come.Checkpointed}, err
}

// count marks the numbers as counted and returns the items that were not before.
func (t *storing) count(ctx context.Context, items []*item) ([]*item, error) {
	p := dbgen.CountMessagesParams{TryID: t.try.ID}
	for _, it := range items {
		var firstNo int64
		if it.part != nil {
			firstNo = it.firstNo
		}
		p.Nos, p.FirstNos, p.GivenUps = append(p.Nos, it.no), append(p.FirstNos, firstNo), append(p.GivenUps, it.givenUp())
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
		}
	}
	return fresh, nil
}

// lock takes the documents' rows in the order of their source ids.
func (t *storing) lock(ctx context.Context, items []*item) (map[string]dbgen.LockDocumentsRow, error) {
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

// wholeDocuments finds, per document, the item that makes it whole: all its parts are counted now. Of several of
// one document in this try the last one counts.
func (t *storing) wholeDocuments(ctx context.Context, items []*item) (map[string]*item, error) {
	p := dbgen.CountPartsParams{TryID: t.try.ID}
	for _, it := range items {
		if it.part != nil && it.part.Parts > 1 && !slices.Contains(p.FirstNos, it.firstNo) {
			p.FirstNos, p.Parts = append(p.FirstNos, it.firstNo), append(p.Parts, int64(it.part.Parts))
		}
	}
	counted := map[int64]int64{}
	if len(p.FirstNos) > 0 {
		rows, err := t.q.CountParts(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("count parts: %w", err)
		}
		for _, row := range rows {
			counted[row.FirstNo] = row.Parts
		}
	}
	whole := map[string]*item{}
	for _, it := range items {
		if it.sourceID == "" || it.part != nil && it.part.Parts > 1 && it.poison == "" && counted[it.firstNo] != int64(it.part.Parts) {
			continue
		}
		if other := whole[it.sourceID]; other == nil || other.firstNo <= it.firstNo {
			whole[it.sourceID] = it
		}
	}
	return whole, nil
}

// change is what a store transaction writes.
type change struct {
	pieces                     []Piece
	replaced                   []Key
	documents                  []write
	processed, failed, deleted int64
	unnamed                    int64
}

func (t *storing) plan(items []*item, rows map[string]dbgen.LockDocumentsRow, whole map[string]*item) change {
	var c change
	for _, it := range items {
		if it.sourceID == "" {
			if it.unnamed() {
				c.failed++
				c.unnamed++
			}
			continue
		}
		row := rows[it.sourceID]
		if superseded(row, t.try.ID, it.firstNo) || whole[it.sourceID] != nil && whole[it.sourceID].firstNo > it.firstNo {
			continue
		}
		for i, chunk := range it.chunks() {
			c.pieces = append(c.pieces, Piece{
				Key: Key{Try: t.try.ID, FirstNo: it.firstNo, DocumentID: row.ID}, No: it.part.FirstChunk + int32(i),
				Text: chunk.Text, HeadingPath: chunk.HeadingPath, Start: chunk.Start, End: chunk.End,
				Embedder: t.embedder, Vector: it.vectors[i],
			})
		}
		if whole[it.sourceID] == it {
			c.write(t, it, row)
		}
	}
	return c
}

// superseded says whether this try wrote the document with a later message already.
func superseded(row dbgen.LockDocumentsRow, try uuid.UUID, firstNo int64) bool {
	return row.WrittenBy != nil && *row.WrittenBy == try && row.WrittenNo != nil && *row.WrittenNo > firstNo
}

// write turns a whole document into its row, and forgets the chunks that it replaces.
func (c *change) write(t *storing, it *item, row dbgen.LockDocumentsRow) {
	old, hasOld := keyOf(row)
	current := row.ConfigVersion == t.run.ConfigVersion
	w := newWrite(it, row.ID)
	switch {
	case it.poison != "":
		w.fail(it.poison)
	case it.part == nil:
		w.Status = "deleted"
	case it.part.Error != "":
		w.fail(it.part.Error)
	case it.part.KeepChunks && row.Status == "stored" && hasOld && current && row.ContentHash == it.part.ContentHash:
		w.Status, w.VersionToken, w.ChunkCount = "stored", it.part.VersionToken, row.ChunkCount
		w.show(old)
	case it.part.KeepChunks:
		w.fail("the content to keep is not what is stored; it is fetched again")
		w.ContentHash = "" // what is kept is not the content that it speaks of
	default:
		w.Status, w.VersionToken, w.ChunkCount = "stored", it.part.VersionToken, it.part.ChunkCount
		w.show(Key{Try: t.try.ID, FirstNo: it.firstNo, DocumentID: row.ID})
	}
	switch w.Status {
	case "deleted":
		c.deleted++
	case "stored":
		c.processed++
	case "failed":
		c.failed++
		// What was stored before stays findable, unless it was fetched under another configuration.
		if hasOld && current {
			w.ChunkCount = row.ChunkCount
			w.show(old)
		}
	}
	if hasOld && !w.shows(old) {
		c.replaced = append(c.replaced, old)
	}
	c.documents = append(c.documents, w)
}

func keyOf(row dbgen.LockDocumentsRow) (Key, bool) {
	if row.TryID == nil || row.FirstNo == nil {
		return Key{}, false
	}
	return Key{Try: *row.TryID, FirstNo: *row.FirstNo, DocumentID: row.ID}, true
}

// write is one row of WriteDocuments.
type write struct {
	ID           int64      `json:"id"`
	WrittenNo    int64      `json:"written_no"`
	Title        string     `json:"title"`
	URL          string     `json:"url"`
	MediaType    string     `json:"media_type"`
	ContentHash  string     `json:"content_hash"`
	VersionToken string     `json:"version_token"`
	Links        []string   `json:"links"`
	ChunkCount   int32      `json:"chunk_count"`
	Status       string     `json:"status"`
	Error        string     `json:"error"`
	TryID        *uuid.UUID `json:"try_id"`
	FirstNo      *int64     `json:"first_no"`
}

func newWrite(it *item, document int64) write {
	w := write{ID: document, WrittenNo: it.firstNo, Links: []string{}}
	if p := it.part; p != nil && it.poison == "" {
		w.Title, w.URL, w.MediaType, w.ContentHash = p.Title, p.Url, p.MediaType, p.ContentHash
		w.Links = append(w.Links, p.Links...)
	}
	return w
}

func (w *write) fail(why string) { w.Status, w.VersionToken, w.Error = "failed", "", why }

func (w *write) show(key Key) { w.TryID, w.FirstNo = &key.Try, &key.FirstNo }

func (w *write) shows(key Key) bool {
	return w.TryID != nil && *w.TryID == key.Try && *w.FirstNo == key.FirstNo
}

func (t *storing) writeDocuments(ctx context.Context, rows []write) error {
	documents, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	return t.q.WriteDocuments(ctx, dbgen.WriteDocumentsParams{
		WrittenBy: t.try.ID, ConfigVersion: t.run.ConfigVersion, Documents: documents,
	})
}
