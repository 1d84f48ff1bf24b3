package googledrive

import (
	"cmp"
	"context"
	"fmt"
)

// changesOf applies what has changed in a drive since its cursor, and moves the cursor.
func (s *syncer) changesOf(ctx context.Context, drive string) error {
	for {
		token := s.state.Cursors[drive]
		feed, err := s.api.changes(ctx, drive, token, s.opts.PageSize)
		if err != nil {
			if drive != "" && isGone(err) {
				return s.driveGone(ctx, drive)
			}
			return err
		}
		s.result.Pages++
		if err := s.changesPage(ctx, drive, feed.Changes); err != nil {
			return err
		}
		next := feed.Next
		if next == "" {
			next = feed.Start
		}
		if err := checkToken(next); err != nil {
			return err
		}
		if _, still := s.state.Cursors[drive]; !still {
			return nil
		}
		s.state.Cursors[drive] = next
		if feed.Next == "" {
			return nil
		}
		// What is still to be done about folders is known to this run only.
		if !s.listing && len(s.come)+len(s.left) == 0 && !s.unsettled {
			if err := s.checkpoint(ctx); err != nil {
				return err
			}
		}
	}
}

// changesPage applies one page. Its folders come first: whether a file is below a root depends on them.
func (s *syncer) changesPage(ctx context.Context, drive string, changes []change) error {
	var files, folders []item
	for _, c := range changes {
		if c.Type == "drive" && c.Removed && c.DriveID == drive {
			return s.driveGone(ctx, drive)
		}
	}
	for _, c := range lastOf(changes, func(c change) string { return c.FileID }) {
		id, f := c.FileID, c.File
		if s.tree.roots[id] {
			if err := s.rootChanged(ctx, drive, id); err != nil {
				return err
			}
			continue
		}
		if c.Removed || f == nil {
			// One that went from a drive to another is gone from the one, and there in the other.
			if f = nil; len(s.state.Roots) > 1 {
				there, err := s.api.item(ctx, id, "")
				switch {
				case err == nil:
					f = &there
				case !isGone(err) && !isRefused(err):
					if away := s.alone(ctx, err); away != nil || !s.later(id) {
						return fmt.Errorf("look for a removed item: %w", cmp.Or(away, err))
					}
					continue
				}
			}
		}
		if f != nil {
			f.ID = id
		}
		s.tell(id, f)
		switch {
		case f == nil || f.Trashed:
			if err := s.gone(ctx, id); err != nil {
				return err
			}
		case f.isFolder():
			s.tree.set(id, f.Parents)
			folders = append(folders, *f)
		default:
			files = append(files, *f)
		}
	}
	for _, f := range folders { // now that all of the page say what they are in
		if err := s.folderChanged(ctx, f); err != nil {
			return err
		}
	}
	return s.changedFiles(ctx, files)
}

// changedFiles brings those below a root up to date, and removes the others.
func (s *syncer) changedFiles(ctx context.Context, files []item) error {
	var in []item
	for _, f := range files {
		if _, is := s.tree.place(f.Parents); is {
			in = append(in, f)
			continue
		}
		if s.isUnplaced(usable(f.Parents)) {
			continue // it is listed with its folder, once that is known
		}
		if err := s.remove(ctx, f.ID); err != nil {
			return err
		}
	}
	return s.files(ctx, in)
}

// tell remembers what the changes say of a shortcut's target. One that is gone from this drive may be in another: it is
// looked for; so is one for which there is no room.
func (s *syncer) tell(id string, f *item) {
	if !s.isTarget[id] {
		return
	}
	if before := s.targets[id]; before.ID != "" {
		s.gives(before.weight())
	}
	s.targets[id] = item{}
	if f == nil {
		return
	}
	if s.takes(f.weight()) {
		s.targets[id] = *f
	}
}

// gone removes an item, and what is below it at the end of the round: some of it may have moved.
func (s *syncer) gone(ctx context.Context, id string) error {
	if _, was := s.tree.folders[id]; was {
		delete(s.tree.folders, id)
		s.drop(id)
		delete(s.come, id)
		delete(s.left, id)
		s.unsettled = true
	}
	return s.remove(ctx, id)
}

// folderChanged takes a folder that the tree has already. Whoever shares folders with the account decides how many there
// are, so those below no root cost nothing that lasts.
func (s *syncer) folderChanged(ctx context.Context, f item) error {
	if !s.tree.holds(f.ID) {
		s.drop(f.ID)
		s.leaves(f.ID)
		return nil
	}
	s.come[f.ID] = struct{}{}
	return s.hold(ctx, f)
}

// driveGone ends the sync where the drive is all there is to sync.
func (s *syncer) driveGone(_ context.Context, drive string) error {
	switch s.cfg.source() {
	case SharedDrive:
		return permanentf("drive_id: the shared drive %q is gone, or the connected account is no longer a member of it", drive)
	case Folder:
		return permanentf("folder_id: %q was in a shared drive that is gone, or whose member the connected account no longer is", s.cfg.FolderID)
	}
	delete(s.tree.roots, s.state.Roots[drive])
	delete(s.state.Roots, drive)
	delete(s.state.Cursors, drive)
	s.unsettled = true
	return nil
}
