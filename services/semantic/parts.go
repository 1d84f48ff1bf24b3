package semantic

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// claim is a digest of what a part says of its document; the zero UUID for a document of one part. Only parts with the same claim
// make a document whole: a part that reports a failure, or keeps the content, has another claim than a part that brings content.
func (it *item) claim(try uuid.UUID) uuid.UUID {
	if it.part == nil || it.part.Parts <= 1 {
		return uuid.UUID{}
	}
	p := it.part
	return uuid.NewSHA1(try, fmt.Appendf(nil, "%q %d %d %d %t %t", p.SourceId, p.FirstNo, p.Parts, p.ChunkCount,
		p.Error != "", p.KeepChunks))
}

// parts collects one document of several parts within a store.
type parts struct {
	it  *item // any of its parts
	row dbgen.LockDocumentsRow
	// Over the items of this store: how many chunks they bring, and the first and last number of those.
	chunks, first, last int64
}

func (p *parts) add(it *item) {
	for i := range it.chunks() {
		no := int64(it.part.FirstChunk) + int64(i)
		p.chunks, p.first, p.last = p.chunks+1, min(p.first, no), max(p.last, no)
	}
}

// areComplete says whether every part is counted and every chunk is stored or in this store. The chunks of a document that a later
// message of the try has replaced are not kept.
func (p *parts) areComplete(counted dbgen.CountPartsRow, try uuid.UUID) bool {
	said := p.it.part
	switch {
	case counted.HasFailed || counted.Parts != int64(said.Parts):
		return false
	case p.it.keepsText() || superseded(p.row, try, p.it.firstNo):
		return true
	}
	return counted.Brought == int64(said.ChunkCount) && counted.Chunks+p.chunks == int64(said.ChunkCount) &&
		(said.ChunkCount == 0 || min(p.first, int64(counted.FirstChunk)) == 0 &&
			max(p.last, int64(counted.LastChunk)) == int64(said.ChunkCount)-1)
}

// wholeDocuments finds, per document, the item that makes it whole: all its parts are counted now. Where one try has written the
// document several times, the last one counts.
func (t *storeTx) wholeDocuments(
	ctx context.Context, items []*item, rows map[string]dbgen.LockDocumentsRow,
) (map[string]*item, error) {
	complete, err := t.completeParts(ctx, items, rows)
	if err != nil {
		return nil, err
	}
	whole := map[string]*item{}
	for _, it := range items {
		claim := it.claim(t.try.ID)
		text, is := complete[claim]
		if it.sourceID == "" || it.poison == "" && claim != (uuid.UUID{}) && !is {
			continue
		}
		if it.wholeText = text; claim == (uuid.UUID{}) {
			it.wholeText = it.textBytes()
		}
		if other := whole[it.sourceID]; other == nil || other.firstNo <= it.firstNo {
			whole[it.sourceID] = it
		}
	}
	return whole, nil
}

// completeParts says which documents of several parts are complete, and how long their texts are. It ends the waiting of their
// parts, and of parts whose document has failed.
func (t *storeTx) completeParts(
	ctx context.Context, items []*item, rows map[string]dbgen.LockDocumentsRow,
) (map[uuid.UUID]int64, error) {
	p := dbgen.CountPartsParams{TryID: t.try.ID}
	documents := map[uuid.UUID]*parts{}
	for _, it := range items {
		claim := it.claim(t.try.ID)
		if claim == (uuid.UUID{}) {
			continue
		}
		if documents[claim] == nil {
			row := rows[it.sourceID]
			documents[claim] = &parts{it: it, row: row, first: int64(it.part.ChunkCount), last: -1}
			p.Claims, p.FirstNos = append(p.Claims, claim), append(p.FirstNos, it.firstNo)
			p.Parts, p.Ids = append(p.Parts, int64(it.part.Parts)), append(p.Ids, row.ID)
		}
		documents[claim].add(it)
	}
	if len(documents) == 0 {
		return nil, nil
	}
	counted, err := t.q.CountParts(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("count parts: %w", err)
	}
	complete, done := map[uuid.UUID]int64{}, dbgen.PartsWaitNoLongerParams{TryID: t.try.ID}
	for _, row := range counted {
		i := row.Place - 1
		claim := p.Claims[i]
		areAll := documents[claim].areComplete(row, t.try.ID)
		if areAll {
			complete[claim] = row.TextBytes
		}
		if areAll || row.HasFailed {
			done.FirstNos, done.Parts = append(done.FirstNos, p.FirstNos[i]), append(done.Parts, p.Parts[i])
			done.Claims = append(done.Claims, claim)
		}
	}
	if len(done.FirstNos) > 0 {
		waited, err := t.q.PartsWaitNoLonger(ctx, done)
		if err != nil {
			return nil, fmt.Errorf("end the waiting of parts: %w", err)
		}
		t.waiting -= waited
	}
	return complete, nil
}
