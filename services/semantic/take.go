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

// adds is what a whole document counts more than its row did.
func (it *item) adds(row dbgen.LockDocumentsRow) amount {
	isCounted := row.Status == "stored" || row.TryID != nil
	switch {
	case it.poison != "":
		return amount{}
	case it.part == nil && isCounted:
		return amount{-1, -row.TextBytes - row.OtherBytes}
	case it.part == nil || it.part.Error != "":
		return amount{}
	}
	more := amount{bytes: int64(len(it.part.Title)+len(it.part.Url)) - row.OtherBytes}
	for _, link := range it.part.Links {
		more.bytes += int64(len(link))
	}
	if it.part.KeepChunks {
		if more.bytes <= smallBytes {
			more.bytes = min(more.bytes, 0)
		}
		return more
	}
	more.bytes += it.wholeText - row.TextBytes
	if !isCounted {
		more.documents = 1
	}
	return more
}

// makeRoom asks how much room the owner has; again where there is not enough for all, as others may have made some.
func (t *storing) makeRoom(ctx context.Context, rows map[string]dbgen.LockDocumentsRow, whole map[string]*item) (err error) {
	var all amount
	for id, it := range whole {
		more := it.adds(rows[id])
		all.add(amount{max(more.documents, 0), max(more.bytes, 0)})
	}
	if t.room, err = t.rooms.of(ctx, t.q, t.run.UserID, false); err != nil || t.room.has(all) {
		return err
	}
	t.room, err = t.rooms.of(ctx, t.q, t.run.UserID, true)
	return err
}

// take counts a document that is about to be stored or deleted, or says why its owner has no room for it.
func (t *storing) take(it *item, row dbgen.LockDocumentsRow) error {
	more := it.adds(row)
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
