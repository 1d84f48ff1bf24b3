package googledrive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/echomind/sync/sdk/worker"
)

// locate finds the roots and their drives. It asks only for what the cursor does not hold, and for the list of shared drives. It
// returns drives that are new.
func (s *syncer) locate(ctx context.Context) (news []string, err error) {
	known := len(s.cursor.Cursors) > 0 && len(s.cursor.Roots) > 0
	if !known {
		s.cursor.Roots, s.cursor.Cursors = map[string]string{}, map[string]string{}
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
	for drive := range s.cursor.Roots {
		if drive != "" && !slices.Contains(now, drive) {
			delete(s.cursor.Roots, drive) // the sweep removes its contents
			delete(s.cursor.Cursors, drive)
			s.cursor.Unreported = true
		}
	}
	for _, drive := range now {
		s.cursor.Roots[drive] = drive // a shared drive's root folder has its id
		// An interrupted listing may have left a root without a cursor.
		if _, begun := s.cursor.Cursors[drive]; known && !begun {
			news = append(news, drive)
		}
	}
	slices.Sort(news)
	return news, nil
}

func (s *syncer) locateRoot(ctx context.Context) error {
	id, drive := "root", ""
	switch s.cfg.source() {
	case SharedDrive:
		id, drive = s.cfg.DriveID, s.cfg.DriveID
	case Folder:
		id = s.cfg.FolderID
	}
	root, err := s.root(ctx, id)
	if err != nil {
		return err
	}
	if s.cfg.source() == Folder {
		drive = root.DriveID
	}
	s.cursor.Roots[drive] = root.ID
	return nil
}

// root asks for a root, which must be a folder outside the trash.
func (s *syncer) root(ctx context.Context, id string) (item, error) {
	root, err := s.api.item(ctx, id, "")
	switch {
	case err != nil:
		return root, s.rootError(err, id)
	case root.isShortcut():
		return root, worker.Permanent(fmt.Errorf("%s: %q is a shortcut; give the id of the folder that it leads to, %q",
			s.field(), id, root.Shortcut.Target))
	case !root.isFolder():
		return root, worker.Permanent(fmt.Errorf("%s: %q is not a folder; give the id of the folder that holds it", s.field(), id))
	case root.Trashed:
		return root, s.rootError(errTrashed, id)
	}
	return root, nil
}

// errTrashed says that the synced folder is in the trash.
var errTrashed = errors.New("it is in the trash; restore it")

// field is the field of the configuration that says what is synced.
func (s *syncer) field() string {
	return map[string]string{SharedDrive: "drive_id", Folder: "folder_id", MyDrive: "source"}[s.cfg.source()]
}

// rootError turns an error about a root into a text that its user can act on. A root that existed before is away, and may come
// back.
func (s *syncer) rootError(err error, id string) error {
	switch notThere := isGone(err) || errors.Is(err, errTrashed); {
	case notThere && !s.sync.First():
		return fmt.Errorf("%s: %q was there and is not there now (%w); it is looked for again; if it is gone for good, name another", s.field(), id, err)
	case notThere || isRefused(err):
		return worker.Permanent(fmt.Errorf("%s: %q is not there for the connected account, or not any more (%w); share it with the account, "+
			"or name another", s.field(), id, err))
	}
	return err
}

// rootChanged checks a root that the changes name.
func (s *syncer) rootChanged(ctx context.Context, drive, id string) error {
	root, err := s.root(ctx, id)
	if err != nil {
		return err
	}
	if s.cfg.source() == Folder && root.DriveID != drive {
		// It was moved to another drive, whose changes are others.
		s.cursor.Roots = nil
		return errStale
	}
	return nil
}
