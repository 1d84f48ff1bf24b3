package semantic

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

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
		case w.shows(key):
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
		w.Links = nil
	case it.part == nil:
		w.Status, w.Memo = "deleted", new("")
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
		w.ContentHash = "" // the stored content is not the content of this hash
	default:
		if err := t.reserve(it, row); err != nil {
			w.fail(err.Error())
			w.keepMetadataIf(t.reserveMetadata(it, row))
			w.ContentHash = "" // no later run takes this hash for that of the stored content
			w.VersionToken = it.part.VersionToken
			break
		}
		w.Status, w.VersionToken = "stored", it.part.VersionToken
		if it.part.KeepChunks {
			w.ChunkCount, w.TextBytes = row.ChunkCount, row.TextBytes
			w.show(old)
			break
		}
		w.ChunkCount, w.TextBytes = it.part.ChunkCount, it.wholeText
		w.show(t.key(it, row))
	}
	// What was stored before stays findable, unless it was fetched under another configuration.
	if w.Status == "failed" && hasOld && current {
		w.ChunkCount, w.TextBytes = row.ChunkCount, row.TextBytes
		w.show(old)
	}
}

// write adds a document's row, and the chunks that it replaces.
func (c *change) write(w write, row dbgen.LockDocumentsRow) {
	switch w.Status {
	case "deleted":
		c.deleted++
	case "stored":
		c.processed++
	case "failed":
		c.failed++
	}
	if old, hasOld := keyOf(row); hasOld && !w.shows(old) {
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

// write is one row of WriteDocuments.
type write struct {
	ID           int64      `json:"id"`
	WrittenNo    int64      `json:"written_no"`
	Title        string     `json:"title"`
	URL          string     `json:"url"`
	MediaType    string     `json:"media_type"`
	ContentHash  string     `json:"content_hash"`
	VersionToken string     `json:"version_token"`
	Links        []string   `json:"links"` // nil: the stored links stay
	Memo         *string    `json:"memo"`  // nil: the stored memo stays; empty: none
	ChunkCount   int32      `json:"chunk_count"`
	TextBytes    int64      `json:"text_bytes"`
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
	// The memo of a refused document is kept too: its source finds the document again by it.
	if p := it.part; p != nil && wire.CheckMemo(p.Memo) == nil {
		w.Memo = new(string(p.Memo))
	}
	return w
}

func (w *write) fail(why string) { w.Status, w.VersionToken, w.Error = "failed", "", why }

// keepMetadataIf drops the metadata of a failed document for which there is no room: the stored metadata stays. Without its hash
// its source sends it again.
func (w *write) keepMetadataIf(hasRoom bool) {
	if !hasRoom {
		w.Title, w.URL, w.MediaType, w.ContentHash, w.Links = "", "", "", "", nil
	}
}

func (w *write) show(key Key) { w.TryID, w.FirstNo = &key.Try, &key.FirstNo }

func (w *write) shows(key Key) bool {
	return w.TryID != nil && *w.TryID == key.Try && *w.FirstNo == key.FirstNo
}

func (t *storeTx) writeDocuments(ctx context.Context, rows []write) error {
	documents, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	return t.q.WriteDocuments(ctx, dbgen.WriteDocumentsParams{
		WrittenBy: t.try.ID, ConfigVersion: t.run.ConfigVersion, Documents: documents,
	})
}
