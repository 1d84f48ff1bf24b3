package semantic

import (
	"context"

	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// textBytes is the length of the item's texts and heading paths.
func (it *item) textBytes() (n int64) {
	for _, chunk := range it.chunks() {
		n += int64(len(chunk.Text))
		for _, heading := range chunk.HeadingPath {
			n += int64(len(heading))
		}
	}
	return n
}

// metadataBytes is the length of the document's title, address and links.
func (it *item) metadataBytes() int64 {
	n := len(it.part.Title) + len(it.part.Url)
	for _, link := range it.part.Links {
		n += len(link)
	}
	return int64(n)
}

// growth returns how much a whole document counts more than its row did, and how much room there must be for that. The metadata of
// a document without text is stored whether or not there is room, as long as it is small: its source may need it to recognise its
// documents, as Google Drive does with folders.
func (t *storeTx) growth(it *item, row dbgen.LockDocumentsRow) (more, needs amount) {
	row = t.countedRow(row)
	counted := int64(min(row.ChunkCount, 1))
	switch {
	case it.poison != "":
		return amount{}, amount{}
	case it.part == nil:
		more = amount{-counted, -row.TextBytes - row.TitleBytes - row.UrlBytes - row.LinksBytes}
		return more, more
	}
	said, brings := t.metadataGrowth(it, row), !it.keepsText() && contradiction(it.part) == nil
	more.bytes = said
	if brings {
		more.add(amount{int64(min(it.part.ChunkCount, 1)) - counted, it.wholeText - row.TextBytes})
	}
	needs = more
	if it.metadataBytes() <= smallBytes && !(brings && it.part.ChunkCount > 0) {
		needs.bytes -= max(said, 0)
	}
	return more, needs
}

// countedRow is the row that counts for a document: a row of another configuration does not count here.
func (t *storeTx) countedRow(row dbgen.LockDocumentsRow) dbgen.LockDocumentsRow {
	if row.ConfigVersion != t.run.ConfigVersion {
		return dbgen.LockDocumentsRow{}
	}
	return row
}

// metadataGrowth is how much longer the title, address and links of a row become. An empty title or address keeps the stored one.
func (t *storeTx) metadataGrowth(it *item, row dbgen.LockDocumentsRow) int64 {
	more := it.metadataBytes() - row.LinksBytes
	if it.part.Title != "" {
		more -= row.TitleBytes
	}
	if it.part.Url != "" {
		more -= row.UrlBytes
	}
	return more
}

// keepsText says whether the document, once it is whole, shows no chunks of this try.
func (it *item) keepsText() bool { return it.part.KeepChunks || it.part.Error != "" }

// reserveAll reserves room for all items. Where there is not enough, it reads the quota anew, because others may have made room,
// and each document is decided by itself.
func (t *storeTx) reserveAll(ctx context.Context, rows map[string]dbgen.LockDocumentsRow, whole map[string]*item) (err error) {
	var all, need amount
	for id, it := range whole {
		if t.isStale(it, rows[id]) {
			continue
		}
		more, needs := t.growth(it, rows[id])
		all.add(more.positive())
		need.add(needs.positive())
	}
	if t.quota, err = t.quotas.get(ctx, t.q, t.run.UserID, false); err != nil {
		return err
	}
	if t.fits = t.quota.reserve(all, need) == nil; t.fits {
		t.reserved = all
		return nil
	}
	t.quota, err = t.quotas.get(ctx, t.q, t.run.UserID, true)
	return err
}

// reserve takes a document from the quota that is about to be stored or deleted, or says why there is no room for it.
func (t *storeTx) reserve(it *item, row dbgen.LockDocumentsRow) error {
	more, needs := t.growth(it, row)
	if t.fits { // it is reserved already
		more.sub(more.positive())
		needs = amount{}
	}
	err := t.quota.reserve(more, needs)
	if err == nil {
		t.reserved.add(more)
	}
	return err
}

// reserveMetadata takes the metadata of a refused document from the quota. It returns false where the metadata is too long to be
// stored.
func (t *storeTx) reserveMetadata(it *item, row dbgen.LockDocumentsRow) bool {
	if it.metadataBytes() > smallBytes {
		return false
	}
	more := amount{0, t.metadataGrowth(it, t.countedRow(row))}
	t.quota.reserveAnyway(more)
	t.reserved.add(more)
	return true
}

// giveBack returns what a store had reserved that is rolled back.
func (t *storeTx) giveBack() {
	if t.quota != nil {
		t.quota.giveBack(t.reserved)
		t.reserved = amount{}
	}
}
