package semantic

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// change is what a store transaction writes.
type change struct {
	pieces                     []Piece
	replaced                   []Key
	replacedChunks             int64 // how many chunks are replaced
	documents                  []write
	processed, failed, deleted int64
	unnamed                    int64
}

func (t *storeTx) plan(items []*item, rows map[string]dbgen.LockDocumentsRow, whole map[string]*item) change {
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
		if t.isStale(it, row) || whole[it.sourceID] != nil && whole[it.sourceID].firstNo > it.firstNo {
			continue
		}
		key := t.key(it, row)
		if whole[it.sourceID] != it {
			c.addChunks(t, it, key)
			continue
		}
		w := newWrite(it, row.ID)
		w.decide(t, it, row)
		switch {
		case w.shown == key:
			c.addChunks(t, it, key)
		case it.part != nil && it.part.Parts > 1: // chunks of its other parts may be stored
			c.replaced = append(c.replaced, key)
			c.replacedChunks += int64(it.part.ChunkCount)
		}
		c.write(w, row)
	}
	return c
}

// addChunks adds the chunks of an item.
func (c *change) addChunks(t *storeTx, it *item, key Key) {
	for i, chunk := range it.chunks() {
		c.pieces = append(c.pieces, Piece{
			Key: key, Chunk: chunk, No: it.part.FirstChunk + int32(i), Embedder: t.embedder, Vector: it.vectors[i],
		})
	}
}

// isStale says whether an item changes nothing: a later item has written its document, or it contradicts a document that is whole
// already.
func (t *storeTx) isStale(it *item, row dbgen.LockDocumentsRow) bool {
	shown, is := keyOf(row)
	return superseded(row, t.try.ID, it.firstNo) || is && shown == t.key(it, row)
}

func (t *storeTx) key(it *item, row dbgen.LockDocumentsRow) Key {
	return Key{Try: t.try.ID, FirstNo: it.firstNo, DocumentID: row.ID}
}

// superseded says whether this try has already written the document with a later message.
func superseded(row dbgen.LockDocumentsRow, try uuid.UUID, firstNo int64) bool {
	return row.WrittenBy != nil && *row.WrittenBy == try && row.WrittenNo != nil && *row.WrittenNo > firstNo
}

// decide sets what a whole document's row becomes.
func (w *write) decide(t *storeTx, it *item, row dbgen.LockDocumentsRow) {
	old, hasOld := keyOf(row)
	current := row.ConfigVersion == t.run.ConfigVersion
	switch {
	case it.poison != "":
		w.fail(it.poison)
	case it.part == nil:
		w.status = "deleted"
		_ = t.reserve(it, row)
	case it.part.Error != "":
		w.fail(it.part.Error)
		w.keepMetadataIf(t.reserve(it, row) == nil)
	case contradiction(it.part) != nil:
		w.fail(contradiction(it.part).Error())
		w.keepMetadataIf(t.reserve(it, row) == nil)
	case it.part.KeepChunks && !(row.Status == "stored" && hasOld && current && row.ContentHash == it.part.ContentHash):
		w.fail("the content to keep is not what is stored; it is fetched again")
		w.keepMetadataIf(t.reserve(it, row) == nil)
		w.hash = "" // the stored content is not the content of this hash
	default:
		if err := t.reserve(it, row); err != nil {
			w.fail(err.Error())
			w.keepMetadataIf(t.reserveMetadata(it, row))
			w.hash = "" // no later run takes this hash for that of the stored content
			w.token = it.part.VersionToken
			break
		}
		w.status, w.token = "stored", it.part.VersionToken
		if it.part.KeepChunks {
			w.shown, w.chunks, w.textBytes = old, row.ChunkCount, row.TextBytes
			break
		}
		w.shown, w.chunks, w.textBytes = t.key(it, row), it.part.ChunkCount, it.wholeText
	}
	// What was stored before stays findable, unless it was fetched under another configuration.
	if w.status == "failed" && hasOld && current {
		w.shown, w.chunks, w.textBytes = old, row.ChunkCount, row.TextBytes
	}
}

// write adds a document's row, and the chunks that it replaces.
func (c *change) write(w write, row dbgen.LockDocumentsRow) {
	switch w.status {
	case "deleted":
		c.deleted++
	case "stored":
		c.processed++
	case "failed":
		c.failed++
	}
	if old, hasOld := keyOf(row); hasOld && w.shown != old {
		c.replaced = append(c.replaced, old)
		c.replacedChunks += int64(row.ChunkCount)
	}
	c.documents = append(c.documents, w)
}

func keyOf(row dbgen.LockDocumentsRow) (Key, bool) {
	if row.TryID == nil || row.FirstNo == nil {
		return Key{}, false
	}
	return Key{Try: *row.TryID, FirstNo: *row.FirstNo, DocumentID: row.ID}, true
}

// write is what becomes of a document's row.
type write struct {
	id, no int64
	status string
	reason string // of a failure
	// said is the part whose title, address, media type and links the row gets; nil: its own stay, unless it is deleted.
	said        *internalpb.DocumentPart
	hash, token string
	memo        []byte // nil: the stored memo stays, unless the document is deleted; empty: none
	shown       Key    // of the chunks that can be found; zero: none
	chunks      int32
	textBytes   int64
}

func newWrite(it *item, document int64) write {
	w := write{id: document, no: it.firstNo}
	if it.part != nil && it.poison == "" {
		w.said, w.hash = it.part, it.part.ContentHash
	}
	// The memo of a refused document is kept too: its source finds the document again by it.
	if it.part != nil && wire.CheckMemo(it.part.Memo) == nil {
		w.memo = append([]byte{}, it.part.Memo...)
	}
	return w
}

func (w *write) fail(why string) { w.status, w.token, w.reason = "failed", "", why }

// keepMetadataIf drops the metadata of a failed document for which there is no room: the stored metadata stays. Without its hash
// its source sends it again.
func (w *write) keepMetadataIf(hasRoom bool) {
	if !hasRoom {
		w.said, w.hash = nil, ""
	}
}

func (t *storeTx) writeDocuments(ctx context.Context, rows []write) error {
	p := dbgen.WriteDocumentsParams{WrittenBy: t.try.ID, ConfigVersion: t.run.ConfigVersion}
	for _, w := range rows {
		var links []byte
		if w.said != nil {
			var err error
			if links, err = json.Marshal(w.said.Links); err != nil {
				return err
			}
		}
		p.Ids, p.WrittenNos, p.Statuses, p.Errors = append(p.Ids, w.id), append(p.WrittenNos, w.no), append(p.Statuses, w.status), append(p.Errors, w.reason)
		p.Titles, p.Urls = append(p.Titles, w.said.GetTitle()), append(p.Urls, w.said.GetUrl())
		p.MediaTypes, p.Links = append(p.MediaTypes, w.said.GetMediaType()), append(p.Links, links)
		p.Hashes, p.Tokens, p.Memos = append(p.Hashes, w.hash), append(p.Tokens, w.token), append(p.Memos, w.memo)
		p.TryIds, p.FirstNos = append(p.TryIds, w.shown.Try), append(p.FirstNos, w.shown.FirstNo)
		p.Chunks, p.TextBytes = append(p.Chunks, w.chunks), append(p.TextBytes, w.textBytes)
	}
	return t.q.WriteDocuments(ctx, p)
}
