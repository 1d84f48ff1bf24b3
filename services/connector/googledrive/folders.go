package googledrive

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/echomind/sync/services/connector/internal/answer"
)

// folderOverhead is about how many bytes a folder takes besides its texts until its place is known.
const folderOverhead = 500

// folder stores a folder: a document without text, from which later syncs build the tree.
func (s *syncer) folder(ctx context.Context, f item, parents []string) error {
	return s.sync.Item(ctx, newItem(f, memo{Kind: kindFolder, Parents: parents}))
}

// listFolders stores the folders of a drive.
func (s *syncer) listFolders(ctx context.Context, drive string) error {
	if s.isWholeDrive() {
		if held, err := s.listFlat(ctx, drive); held || err != nil {
			return err
		}
	}
	// Listed level by level, no folder has to be held until its place is known.
	come := s.toList
	s.toList = map[string]string{s.cursor.Roots[drive]: drive}
	err := s.listQueued(ctx, onlyFolders)
	s.toList = come
	return err
}

// listFlat lists all folders in no order, including folders that others share with the user. Where there are more than may be held,
// nothing is stored, and held is false.
func (s *syncer) listFlat(ctx context.Context, drive string) (held bool, err error) {
	found, room := map[string]item{}, s.opts.HeldBytes
	weight := func(f item) int {
		return folderOverhead + len(f.ID) + len(f.Name) + len(f.Link) + len(f.Parents)*2*maxIDBytes
	}
	err = s.pages(ctx, drive, onlyFolders, "", func(page []item, _ string) error {
		for _, f := range answer.LastOf(page, item.identity) {
			if !f.isFolder() || s.tree.roots[f.ID] {
				continue
			}
			if before, had := found[f.ID]; had { // of several reports of a folder the last one counts
				room += weight(before)
			}
			found[f.ID] = f
			s.tree.set(f.ID, f.Parents)
			if room -= weight(f); room < 0 {
				return errNoRoom
			}
		}
		return nil
	})
	if errors.Is(err, errNoRoom) {
		for id := range found {
			delete(s.tree.folders, id)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for id, f := range found {
		parents, in := s.tree.place(f.Parents)
		if !in {
			delete(s.tree.folders, id) // nothing below it is synced
			continue
		}
		if err := s.folder(ctx, f, parents); err != nil {
			return false, err
		}
	}
	return true, nil
}

// errNoRoom says that there are more folders than may be held.
var errNoRoom = errors.New("there are more folders than are held")

// listQueued lists the contents of folders that have appeared or changed, level by level.
func (s *syncer) listQueued(ctx context.Context, filter string) error {
	done := map[string]bool{}
	for {
		byDrive := map[string][]string{}
		for id, drive := range s.toList {
			if !done[id] && s.tree.holds(id) {
				byDrive[drive] = append(byDrive[drive], id)
			}
		}
		if len(byDrive) == 0 {
			clear(s.toList)
			return nil
		}
		for _, drive := range slices.Sorted(maps.Keys(byDrive)) {
			slices.Sort(byDrive[drive])
			for batch := range slices.Chunk(byDrive[drive], parentsAtOnce) {
				if err := s.listChildren(ctx, drive, filter, batch, func(page []item) error { return s.takeListed(ctx, page) }); err != nil {
					return err
				}
				for _, id := range batch {
					done[id] = true
				}
			}
		}
	}
}

// takeListed takes the contents of a folder that has appeared or changed.
func (s *syncer) takeListed(ctx context.Context, page []item) error {
	for _, f := range page {
		if !f.isFolder() || !validID(f.ID) || s.tree.roots[f.ID] {
			continue
		}
		s.tree.set(f.ID, f.Parents)
		if err := s.folderChanged(ctx, f); err != nil {
			return err
		}
	}
	return s.files(ctx, page, false)
}

// folderChanged handles a folder that is in the tree already.
func (s *syncer) folderChanged(ctx context.Context, f item) error {
	parents, in := s.tree.place(f.Parents)
	if !in {
		s.noteDetached(f.ID)
		return nil
	}
	s.toList[f.ID] = f.DriveID
	return s.folder(ctx, f, parents)
}

// noteDetached notes a folder that is below no root. A stored folder may come below a root by the end of the listing. Any other
// folder is not held, because people who share folders with the account decide how many there are: a folder that later puts it
// below a root is listed with everything below it.
func (s *syncer) noteDetached(id string) {
	if _, stored := s.sync.Stored(id); !stored {
		delete(s.tree.folders, id)
		return
	}
	s.goneFolders[id], s.detached = true, true
}
