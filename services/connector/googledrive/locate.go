package googledrive

import (
	"context"
	"slices"
)

// locate finds the roots, and the drives that they are in. What the state holds is not asked for again, except which
// shared drives there are. It returns the drives that are new since.
func (s *syncer) locate(ctx context.Context) (news []string, err error) {
	known := len(s.state.Cursors) > 0 && len(s.state.Roots) > 0
	if !known {
		s.state = state{
			Roots: map[string]string{}, Cursors: map[string]string{}, Failed: s.state.Failed, Refused: s.state.Refused,
			Later: s.state.Later, Away: s.state.Away,
		}
		if err := s.locateRoot(ctx); err != nil {
			return nil, err
		}
	}
	if !s.cfg.IncludeSharedDrives {
		return nil, nil
	}
	now, err := s.api.drives(ctx)
	if err != nil {
		return nil, err
	}
	for drive := range s.state.Roots {
		if drive != "" && !slices.Contains(now, drive) {
			delete(s.state.Roots, drive) // the sweep deletes what was in it
			delete(s.state.Cursors, drive)
			s.driveLeft = true
		}
	}
	for _, drive := range now {
		s.state.Roots[drive] = drive // a shared drive's root folder has its id
		// A listing that died may have left a root without a cursor.
		if _, begun := s.state.Cursors[drive]; known && !begun {
			news = append(news, drive)
		}
	}
	slices.Sort(news)
	return news, nil
}

func (s *syncer) locateRoot(ctx context.Context) error {
	field, id, drive := "source", "root", ""
	switch s.cfg.source() {
	case SharedDrive:
		field, id, drive = "drive_id", s.cfg.DriveID, s.cfg.DriveID
	case Folder:
		field, id = "folder_id", s.cfg.FolderID
	}
	root, err := s.root(ctx, field, id)
	if err != nil {
		return err
	}
	if field == "folder_id" {
		drive = root.DriveID
	}
	s.state.Roots[drive] = root.ID
	return nil
}

// root asks for a root, which has to be a folder that is not in the trash.
func (s *syncer) root(ctx context.Context, field, id string) (item, error) {
	root, err := s.api.item(ctx, id, "")
	switch {
	case err != nil:
		return root, aboutSource(err, field, id)
	case root.isShortcut():
		return root, permanentf("%s: %q is a shortcut; give the id of the folder that it leads to, %q", field, id, root.Shortcut.Target)
	case !root.isFolder():
		return root, permanentf("%s: %q is not a folder; give the id of the folder that holds it", field, id)
	case root.Trashed:
		return root, permanentf("%s: %q is in the trash; restore it, or name another", field, id)
	}
	return root, nil
}

// rootChanged looks at a root that the changes name.
func (s *syncer) rootChanged(ctx context.Context, drive, id string) error {
	field := map[string]string{SharedDrive: "drive_id", Folder: "folder_id", MyDrive: "source"}[s.cfg.source()]
	root, err := s.root(ctx, field, id)
	if err != nil {
		return err
	}
	if s.cfg.source() == Folder && root.DriveID != drive {
		// It was moved to another drive, whose changes are others.
		s.state.Roots = nil
		return errStale
	}
	return nil
}
