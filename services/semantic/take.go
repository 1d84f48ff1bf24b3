package semantic

import (
	"context"

	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// textBytes is how long the texts and heading paths of its chunks are.
func (it *item) textBytes() (n int64) {
	for _, chunk := range it.chunks() {
		n += int64(len(chunk.Text))
		for _, heading := range chunk.HeadingPath {
			n += int64(len(heading))
		}
	}
	return n
}

// saidBytes is how long the title, address and links of its document are.
func (it *item) saidBytes() int64 {
	n := len(it.part.Title) + len(it.part.Url)
	for _, link := range it.part.Links {
		n += len(link)
	}
	return int64(n)
}

// adds is what a whole document counts more than its row did. What is said of one that brings no text has room as long as it is
// small: its source may need it to know its documents again, as Google Drive does of folders.
func (t *storing) adds(it *item, row dbgen.LockDocumentsRow) amount {
	if row.ConfigVersion != t.run.ConfigVersion { // that has a room of its own
		row = dbgen.LockDocumentsRow{}
	}
	counted := int64(min(row.ChunkCount, 1))
	switch {
	case it.poison != "":
		return amount{}
	case it.part == nil:
		return amount{-counted, -row.TextBytes - row.OtherBytes}
	}
	said, brings := it.saidBytes(), !it.textStays() && contradiction(it.part) == nil
	more := said - row.OtherBytes
	if said <= smallBytes && !(brings && it.part.ChunkCount > 0) {
		more = min(more, 0)
	}
	if !brings {
		return amount{0, more}
	}
	return amount{int64(min(it.part.ChunkCount, 1)) - counted, more + it.wholeText - row.TextBytes}
}

// textStays says whether its document, once it is whole, shows no chunks of this try.
func (it *item) textStays() bool { return it.part.KeepChunks || it.part.Error != "" }

// makeRoom takes room for all of them. Where there is not enough it asks again, as others may have made some, and each finds out.
func (t *storing) makeRoom(ctx context.Context, rows map[string]dbgen.LockDocumentsRow, whole map[string]*item) (err error) {
	var all amount
	for id, it := range whole {
		if t.isPast(it, rows[id]) {
			continue
		}
		more := t.adds(it, rows[id])
		all.add(amount{max(more.documents, 0), max(more.bytes, 0)})
	}
	if t.room, err = t.rooms.of(ctx, t.q, t.run.UserID, false); err != nil {
		return err
	}
	if t.fits = t.room.take(all) == nil; t.fits {
		t.took = all
		return nil
	}
	t.room, err = t.rooms.of(ctx, t.q, t.run.UserID, true)
	return err
}

// take counts a document that is about to be stored or deleted, or says why its owner has no room for it.
func (t *storing) take(it *item, row dbgen.LockDocumentsRow) error {
	more := t.adds(it, row)
	if t.fits { // there is room already
		more = amount{min(more.documents, 0), min(more.bytes, 0)}
	}
	err := t.room.take(more)
	if err == nil {
		t.took.add(more)
	}
	return err
}

// giveBack is for a store that is rolled back.
func (t *storing) giveBack() {
	if t.room != nil {
		t.room.giveBack(t.took)
		t.took = amount{}
	}
}
