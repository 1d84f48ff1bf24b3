package semantic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

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
	poison string
}

func newItem(d delivery) *item {
	it := &item{no: d.request.Number, firstNo: d.request.Number}
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

// storeItems stores messages of one session in one transaction and says how far the run has come with them. Those
// that are counted already change nothing.
func (s *Semantic) storeItems(
	ctx context.Context, envelope *internalpb.DocumentProcessRequest, session uuid.UUID, items []*item,
) (come progress, err error) {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.no, b.no) })
	var t storing
	ctx, span := s.servers.Tracer.Within(ctx, tracing.Store)
	defer span.End()
	err = deadline.Do(ctx, "semantic.store", s.storeTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, s.servers.Pool, func(tx pgx.Tx) (err error) {
			t = storing{
				tx: tx, q: s.queries.WithTx(tx), store: s.store, embedder: s.embedder.Name(), session: session,
				connectorID: envelope.ConnectorId, configVersion: envelope.ConfigVersion,
			}
			come, err = t.run(ctx, items)
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
	tx            pgx.Tx
	q             *dbgen.Queries
	store         Store
	embedder      string
	session       uuid.UUID
	connectorID   int32
	configVersion int64
	// What the transaction adds, for the metrics.
	counted, chunks int
	failed          int64
}

func (t *storing) run(ctx context.Context, items []*item) (progress, error) {
	fresh, err := t.count(ctx, items)
	if err != nil {
		return progress{}, err
	}
	// Asked after counting: the sweep forgets what an ended run has counted, so that a late duplicate looks new.
	stored, err := t.q.IsStored(ctx, t.session)
	if errors.Is(err, pgx.ErrNoRows) {
		return progress{}, errRunOver
	}
	if err != nil || len(fresh) == 0 {
		return progress{stored.Complete, stored.Checkpointed}, err
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
	if len(change.documents.Ids) > 0 {
		if err := t.q.WriteDocuments(ctx, change.documents); err != nil {
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
		Session: t.session, Stored: int64(len(fresh)), Processed: change.processed, Failed: change.failed,
		Deleted: change.deleted, Chunks: int64(len(change.pieces)), Notes: notes,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return progress{}, errRunOver
	}
	return progress{come.Complete, come.Checkpointed}, err
}

// count marks the numbers as counted and returns the items that were not before.
func (t *storing) count(ctx context.Context, items []*item) ([]*item, error) {
	p := dbgen.CountMessagesParams{Session: t.session}
	for _, it := range items {
		firstNo := it.firstNo
		switch {
		case it.unnamed():
			firstNo = -1 // its document is not known to have failed: the run completes, and its cursor stays
		case it.poison != "":
			firstNo = 0 // counted, but never a part that makes its document whole; nor is a checkpoint kept
		}
		p.Nos = append(p.Nos, it.no)
		p.FirstNos = append(p.FirstNos, firstNo)
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
		ConnectorID: t.connectorID, SourceIds: slices.Compact(ids),
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
// one document in this session the last one counts.
func (t *storing) wholeDocuments(ctx context.Context, items []*item) (map[string]*item, error) {
	var several []int64
	for _, it := range items {
		if it.part != nil && it.part.Parts > 1 {
			several = append(several, it.firstNo)
		}
	}
	counted := map[int64]int64{}
	if len(several) > 0 {
		rows, err := t.q.CountParts(ctx, dbgen.CountPartsParams{Session: t.session, FirstNos: several})
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
	documents                  dbgen.WriteDocumentsParams
	processed, failed, deleted int64
}

func (t *storing) plan(items []*item, rows map[string]dbgen.LockDocumentsRow, whole map[string]*item) change {
	c := change{documents: dbgen.WriteDocumentsParams{WrittenBy: t.session, ConfigVersion: t.configVersion}}
	for _, it := range items {
		if it.sourceID == "" {
			if it.unnamed() {
				c.failed++
			}
			continue
		}
		row := rows[it.sourceID]
		if superseded(row, t.session, it.firstNo) || whole[it.sourceID] != nil && whole[it.sourceID].firstNo > it.firstNo {
			continue
		}
		for i, chunk := range it.chunks() {
			c.pieces = append(c.pieces, Piece{
				Key: Key{Session: t.session, FirstNo: it.firstNo, DocumentID: row.ID}, No: it.part.FirstChunk + int32(i),
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

// superseded says whether this session wrote the document with a later message already.
func superseded(row dbgen.LockDocumentsRow, session uuid.UUID, firstNo int64) bool {
	return row.WrittenBy != nil && *row.WrittenBy == session && row.WrittenNo != nil && *row.WrittenNo > firstNo
}

// write turns a whole document into its row, and forgets the chunks that it replaces.
func (c *change) write(t *storing, it *item, row dbgen.LockDocumentsRow) {
	old, hasOld := keyOf(row)
	current := row.ConfigVersion == t.configVersion
	w := newWrite(it)
	switch {
	case it.poison != "":
		w.fail(it.poison)
	case it.part == nil:
		w.status = "deleted"
	case it.part.Error != "":
		w.fail(it.part.Error)
	case it.part.KeepChunks && row.Status == "stored" && hasOld && current && row.ContentHash == it.part.ContentHash:
		w.status, w.token, w.key, w.chunks = "stored", it.part.VersionToken, old, row.ChunkCount
	case it.part.KeepChunks:
		w.fail("the content to keep is not what is stored; it is fetched again")
		w.hash = "" // what is kept is not the content that it speaks of
	default:
		w.status, w.token, w.chunks = "stored", it.part.VersionToken, it.part.ChunkCount
		w.key = Key{Session: t.session, FirstNo: it.firstNo, DocumentID: row.ID}
	}
	switch w.status {
	case "deleted":
		c.deleted++
	case "stored":
		c.processed++
	case "failed":
		c.failed++
		// What was stored before stays findable, unless it was fetched under another configuration.
		if hasOld && current {
			w.key, w.chunks = old, row.ChunkCount
		}
	}
	if hasOld && old != w.key {
		c.replaced = append(c.replaced, old)
	}
	w.append(&c.documents, it, row.ID)
}

func keyOf(row dbgen.LockDocumentsRow) (Key, bool) {
	if row.Session == nil || row.FirstNo == nil {
		return Key{}, false
	}
	return Key{Session: *row.Session, FirstNo: *row.FirstNo, DocumentID: row.ID}, true
}

// write is one row of WriteDocuments.
type write struct {
	part                       *internalpb.DocumentPart
	status, token, hash, error string
	chunks                     int32
	key                        Key
}

func newWrite(it *item) *write {
	if it.part == nil || it.poison != "" {
		return &write{part: &internalpb.DocumentPart{}}
	}
	return &write{part: it.part, hash: it.part.ContentHash}
}

func (w *write) fail(why string) { w.status, w.token, w.error = "failed", "", why }

func (w *write) append(p *dbgen.WriteDocumentsParams, it *item, id int64) {
	links, err := json.Marshal(w.part.Links)
	if err != nil || w.part.Links == nil {
		links = []byte("[]")
	}
	p.Ids = append(p.Ids, id)
	p.Nos = append(p.Nos, it.firstNo)
	p.Titles = append(p.Titles, w.part.Title)
	p.Urls = append(p.Urls, w.part.Url)
	p.MediaTypes = append(p.MediaTypes, w.part.MediaType)
	p.ContentHashes = append(p.ContentHashes, w.hash)
	p.VersionTokens = append(p.VersionTokens, w.token)
	p.Links = append(p.Links, links)
	p.ChunkCounts = append(p.ChunkCounts, w.chunks)
	p.Statuses = append(p.Statuses, w.status)
	p.Errors = append(p.Errors, w.error)
	p.Sessions = append(p.Sessions, w.key.Session)
	p.FirstNos = append(p.FirstNos, w.key.FirstNo)
}
