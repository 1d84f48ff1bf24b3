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

// adds is what a whole document counts more than its row did, and for how much of that there must be room. What is said of one that
// brings no text is stored, as long as it is small, whether or not there is room: its source may need it to know its documents again,
// as Google Drive does of folders.
func (t *storing) adds(it *item, row dbgen.LockDocumentsRow) (more, needs amount) {
	row = t.before(row)
	counted := int64(min(row.ChunkCount, 1))
	switch {
	case it.poison != "":
		return amount{}, amount{}
	case it.part == nil:
		more = amount{-counted, -row.TextBytes - row.TitleBytes - row.UrlBytes - row.LinksBytes}
		return more, more
	}
	said, brings := t.saysMore(it, row), !it.textStays() && contradiction(it.part) == nil
	more.bytes = said
	if brings {
		more.add(amount{int64(min(it.part.ChunkCount, 1)) - counted, it.wholeText - row.TextBytes})
	}
	needs = more
	if it.saidBytes() <= smallBytes && !(brings && it.part.ChunkCount > 0) {
		needs.bytes -= max(said, 0)
	}
	return more, needs
}

// before is what counts of a document's row: one of another configuration has a room of its own.
func (t *storing) before(row dbgen.LockDocumentsRow) dbgen.LockDocumentsRow {
	if row.ConfigVersion != t.run.ConfigVersion {
		return dbgen.LockDocumentsRow{}
	}
	return row
}

// saysMore is how much longer the title, address and links of a row become. A title and an address that are not said stay.
func (t *storing) saysMore(it *item, row dbgen.LockDocumentsRow) int64 {
	more := it.saidBytes() - row.LinksBytes
	if it.part.Title != "" {
		more -= row.TitleBytes
	}
	if it.part.Url != "" {
		more -= row.UrlBytes
	}
	return more
}

// textStays says whether its document, once it is whole, shows no chunks of this try.
func (it *item) textStays() bool { return it.part.KeepChunks || it.part.Error != "" }

// makeRoom takes room for all of them. Where there is not enough it asks again, as others may have made some, and each finds out.
func (t *storing) makeRoom(ctx context.Context, rows map[string]dbgen.LockDocumentsRow, whole map[string]*item) (err error) {
	var all, need amount
	for id, it := range whole {
		if t.isPast(it, rows[id]) {
			continue
		}
		more, needs := t.adds(it, rows[id])
		all.add(more.positive())
		need.add(needs.positive())
	}
	if t.room, err = t.rooms.of(ctx, t.q, t.run.UserID, false); err != nil {
		return err
	}
	if t.fits = t.room.take(all, need) == nil; t.fits {
		t.took = all
		return nil
	}
	t.room, err = t.rooms.of(ctx, t.q, t.run.UserID, true)
	return err
}

// take counts a document that is about to be stored or deleted, or says why its owner has no room for it.
func (t *storing) take(it *item, row dbgen.LockDocumentsRow) error {
	more, needs := t.adds(it, row)
	if t.fits { // it is taken already
		more.sub(more.positive())
		needs = amount{}
	}
	err := t.room.take(more, needs)
	if err == nil {
		t.took.add(more)
	}
	return err
}

// takeSaid counts what is said of a document that was refused. False: it is too long to be said.
func (t *storing) takeSaid(it *item, row dbgen.LockDocumentsRow) bool {
	if it.saidBytes() > smallBytes {
		return false
	}
	more := amount{0, t.saysMore(it, t.before(row))}
	t.room.takeAnyhow(more)
	t.took.add(more)
	return true
}

// giveBack is for a store that is rolled back.
func (t *storing) giveBack() {
	if t.room != nil {
		t.room.giveBack(t.took)
		t.took = amount{}
	}
}
