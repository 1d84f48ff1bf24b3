package googledrive

import (
	"context"
	"slices"
	"strings"

	"github.com/echomind/sync/services/connector/internal/answer"
)

const (
	// parentsAtOnce bounds how many folders one query names.
	parentsAtOnce = 25
	notTrashed    = "trashed = false"
	onlyFolders   = "mimeType = '" + folderType + "' and " + notTrashed
	noFolders     = "mimeType != '" + folderType + "' and " + notTrashed
)

// listEverything lists drive by drive, first the folders, which decide whether a file is below a root.
func (s *syncer) listEverything(ctx context.Context) error {
	drives := s.cursor.drives()
	if s.cursor.Listing == nil {
		for _, drive := range drives {
			if err := s.setStart(ctx, drive); err != nil {
				return err
			}
		}
		s.cursor.Listing = &listing{Drive: drives[0]}
		// The checkpoint comes before any document, so that the run that continues knows that this listing has stored all of them.
		if err := s.sync.Checkpoint(ctx, &s.cursor); err != nil {
			return err
		}
	}
	for _, drive := range drives {
		if _, begun := s.cursor.Cursors[drive]; !begun || drive < s.cursor.Listing.Drive {
			continue
		}
		if drive != s.cursor.Listing.Drive {
			s.cursor.Listing = &listing{Drive: drive}
		}
		if err := s.listDrive(ctx, drive, s.cursor.Listing); err != nil {
			return err
		}
	}
	s.cursor.Listing = nil
	return nil
}

// listNew lists a shared drive that has appeared. A drive that does not exist, though it is listed, is left to the next sync.
func (s *syncer) listNew(ctx context.Context, drive string) error {
	err := s.setStart(ctx, drive)
	if isGone(err) {
		delete(s.cursor.Roots, drive)
		delete(s.tree.roots, drive)
		return s.sync.FailAlone(ctx, err)
	}
	if err != nil {
		return err
	}
	return s.listDrive(ctx, drive, &listing{})
}

// listDrive lists a drive from at. Where everything is listed, at belongs to the cursor, and checkpoints are set.
func (s *syncer) listDrive(ctx context.Context, drive string, at *listing) error {
	if !at.Files {
		if err := s.listFolders(ctx, drive); err != nil {
			return err
		}
		at.Files = true
		if err := s.checkpointListing(ctx, at); err != nil {
			return err
		}
	}
	return s.listFiles(ctx, drive, at)
}

func (s *syncer) checkpointListing(ctx context.Context, at *listing) error {
	if at != s.cursor.Listing {
		return nil
	}
	return s.sync.Checkpoint(ctx, &s.cursor)
}

// setStart sets the cursor of a drive to its current changes.
func (s *syncer) setStart(ctx context.Context, drive string) error {
	token, err := s.api.startToken(ctx, drive)
	if err != nil {
		if drive != "" && !s.cfg.IncludeSharedDrives {
			err = s.rootError(err, drive)
		}
		return err
	}
	s.cursor.Cursors[drive] = token
	return nil
}

// isWholeDrive tells whether whole drives are synced, and not one folder.
func (s *syncer) isWholeDrive() bool { return s.cfg.source() != Folder }

// listFiles gives the files of a drive to the engine, from at.
func (s *syncer) listFiles(ctx context.Context, drive string, at *listing) error {
	if s.isWholeDrive() {
		return s.filesOf(ctx, drive, noFolders, at)
	}
	ids := []string{s.cursor.Roots[drive]}
	for id := range s.tree.folders {
		if s.tree.holds(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for {
		batch := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id <= at.After || at.Upto != "" && id > at.Upto })
		if len(batch) == 0 {
			return nil
		}
		batch = batch[:min(len(batch), parentsAtOnce)]
		at.Upto = batch[len(batch)-1]
		err := s.filesOf(ctx, drive, noFolders+" and "+inParents(batch), at)
		if isGone(err) {
			err = s.listChildren(ctx, drive, noFolders, batch, func(page []item) error { return s.files(ctx, page, false) })
		}
		if err != nil {
			return err
		}
		at.After, at.Upto, at.Page = at.Upto, "", ""
	}
}

func (s *syncer) filesOf(ctx context.Context, drive, q string, at *listing) error {
	return s.pages(ctx, drive, q, at.Page, func(page []item, next string) error {
		if err := s.files(ctx, page, false); err != nil {
			return err
		}
		if at.Page = next; next == "" {
			return nil
		}
		return s.checkpointListing(ctx, at)
	})
}

// listChildren lists the contents of folders. A folder that is gone makes Google refuse the whole query; then each folder is listed
// by itself.
func (s *syncer) listChildren(ctx context.Context, drive, filter string, folders []string, take func([]item) error) error {
	err := s.pages(ctx, drive, filter+" and "+inParents(folders), "", func(page []item, _ string) error { return take(page) })
	if !isGone(err) {
		return err
	}
	if len(folders) == 1 {
		return s.noteNotListed(ctx, drive, folders[0])
	}
	for _, id := range folders {
		if err := s.listChildren(ctx, drive, filter, []string{id}, take); err != nil {
			return err
		}
	}
	return nil
}

// pages lists all pages of a query, from token.
func (s *syncer) pages(ctx context.Context, drive, q, token string, take func(page []item, next string) error) error {
	for {
		p, err := s.api.list(ctx, drive, q, token, s.opts.PageSize)
		if err != nil {
			return err
		}
		s.pagesRead++
		if err := take(p.Files, p.Next); err != nil {
			return err
		}
		if token = p.Next; token == "" {
			return nil
		}
	}
}

func inParents(ids []string) string {
	terms := make([]string, len(ids))
	for i, id := range ids {
		terms[i] = "'" + id + "' in parents" // an id has no quotes: see validID
	}
	return "(" + strings.Join(terms, " or ") + ")"
}

// files gives files to the engine. A file that a change names and that is below no root is removed at the end of the round; a
// listing removes at its end the files that it has not shown.
func (s *syncer) files(ctx context.Context, items []item, changed bool) error {
	for _, f := range answer.LastOf(items, item.identity) {
		parents, in := s.tree.place(f.Parents)
		delete(s.unplaced, f.ID)
		var err error
		switch {
		case f.isFolder() || f.Trashed || s.tree.roots[f.ID]:
		case !in:
			if _, stored := s.sync.Stored(f.ID); stored && (changed || !s.listing) {
				s.unplaced[f.ID], s.detached = f, true // its folder may come below a root by the end of the round
			}
		case f.isShortcut():
			err = s.giveShortcut(ctx, f, parents)
		default:
			err = s.sync.Item(ctx, s.file(f, parents))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
