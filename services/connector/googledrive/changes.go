package googledrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/echomind/sync/services/connector/internal/answer"
)

// applyChanges applies the changes of a drive since its cursor, and advances the cursor.
func (s *syncer) applyChanges(ctx context.Context, drive string) error {
	for {
		feed, err := s.api.changes(ctx, drive, s.cursor.Cursors[drive], s.opts.PageSize)
		if err != nil {
			switch notThere := drive != "" && isGone(err) && !errors.Is(err, errStale); {
			case notThere && s.cfg.IncludeSharedDrives:
				return s.sync.FailAlone(ctx, err) // the list of drives still has it, and only that list reports a drive as gone
			case notThere:
				return s.driveGone(drive)
			}
			return err
		}
		s.pagesRead++
		if err := s.applyPage(ctx, drive, feed.Changes); err != nil {
			return err
		}
		if _, still := s.cursor.Cursors[drive]; !still {
			return nil
		}
		s.cursor.Cursors[drive] = cmp.Or(feed.Next, feed.Start)
		if feed.Next == "" {
			return nil
		}
		// The folders that are still to be listed are known to this run only.
		if !s.listing && len(s.toList) == 0 && !s.detached {
			if err := s.sync.Checkpoint(ctx, &s.cursor); err != nil {
				return err
			}
		}
	}
}

// applyPage applies one page. Its folders come first, because they decide whether a file is below a root.
func (s *syncer) applyPage(ctx context.Context, drive string, changes []change) error {
	var files, folders []item
	for _, c := range changes {
		if c.Type == "drive" && c.Removed && c.DriveID == drive {
			return s.driveGone(drive)
		}
	}
	for _, c := range answer.LastOf(changes, change.identity) {
		if s.tree.roots[c.FileID] {
			if err := s.rootChanged(ctx, drive, c.FileID); err != nil {
				return err
			}
			continue
		}
		if _, is := s.targets[c.FileID]; is {
			s.targets[c.FileID] = true
		}
		f, err := s.currentItem(ctx, c)
		switch {
		case err != nil:
			if err := s.sync.FailAlone(ctx, err); err != nil {
				return fmt.Errorf("look for a removed item: %w", err)
			}
			_, err = s.markAway(ctx, c.FileID)
		case f == nil || f.Trashed:
			err = s.removeItem(ctx, c.FileID)
		case f.isFolder():
			s.tree.set(f.ID, f.Parents)
			folders = append(folders, *f)
		default:
			files = append(files, *f)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range folders { // after all folders of the page are in the tree
		if err := s.folderChanged(ctx, f); err != nil {
			return err
		}
	}
	return s.files(ctx, files, true)
}

// currentItem is the changed item; nil where it is gone. An item that moved between two drives is reported as gone from one and as
// present in the other.
func (s *syncer) currentItem(ctx context.Context, c change) (*item, error) {
	if !c.Removed && c.File != nil {
		c.File.ID = c.FileID
		return c.File, nil
	}
	if len(s.cursor.Roots) == 1 {
		return nil, nil
	}
	f, err := s.api.item(ctx, c.FileID, "")
	if isGone(err) || isRefused(err) {
		return nil, nil
	}
	f.ID = c.FileID
	return &f, err
}

// removeItem removes an item, and at the end of the round everything below it: a part of that may have moved.
func (s *syncer) removeItem(ctx context.Context, id string) error {
	if _, was := s.tree.folders[id]; was {
		delete(s.tree.folders, id)
		delete(s.toList, id)
		s.goneFolders[id], s.detached = true, true
	}
	return s.sync.Remove(ctx, id)
}

// driveGone fails the sync where it syncs this drive alone, because the drive may come back.
func (s *syncer) driveGone(drive string) error {
	if !s.cfg.IncludeSharedDrives {
		return fmt.Errorf("%s: the shared drive %q is gone, or the connected account is no longer a member of it; it is looked for again",
			s.field(), drive)
	}
	delete(s.tree.roots, s.cursor.Roots[drive])
	s.goneFolders[s.cursor.Roots[drive]] = true
	delete(s.cursor.Roots, drive)
	delete(s.cursor.Cursors, drive)
	s.detached = true
	return nil
}
