package googledrive

import (
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
		if !s.listing && len(s.changed) == 0 && !s.unsettled {
			if err := s.checkpoint(ctx); err != nil {
				return err
			}
		}
	}
}

// changesPage applies one page. Its folders come first: whether a file is below a root depends on them.
func (s *syncer) changesPage(ctx context.Context, drive string, changes []change) error {
	var files []item
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
					return fmt.Errorf("look for a removed item: %w", err)
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
			if err := s.folderChanged(*f); err != nil {
				return err
			}
		default:
			files = append(files, *f)
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
		s.held -= before.weight()
	}
	s.targets[id] = item{}
	if f == nil {
		return
	}
	if s.held+f.weight() <= maxHeldBytes {
		s.held += f.weight()
		s.targets[id] = *f
	}
}

// gone removes an item, and what is below it at the end of the round: some of it may have moved.
func (s *syncer) gone(ctx context.Context, id string) error {
	if _, was := s.tree.folders[id]; was {
		delete(s.tree.folders, id)
		s.drop(s.changed, id)
		delete(s.come, id)
		s.unsettled = true
	}
	return s.remove(ctx, id)
}

func (s *syncer) folderChanged(f item) error {
	s.tree.set(f.ID, f.Parents)
	s.come[f.ID] = struct{}{}
	if err := s.hold(s.changed, f); err != nil {
		return fmt.Errorf("list changes: %w", err)
	}
	return nil
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
