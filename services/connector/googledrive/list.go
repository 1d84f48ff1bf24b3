package googledrive

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
)

const (
	// parentsAtOnce bounds a query for what is in several folders.
	parentsAtOnce = 25
	onlyFolders   = "mimeType = '" + folderType + "' and trashed = false"
	noFolders     = "mimeType != '" + folderType + "' and trashed = false"
)

// listEverything lists drive by drive, first the folders, so that each file is known to be below a root or not.
func (s *syncer) listEverything(ctx context.Context) error {
	drives := s.state.drives()
	if !s.resumed {
		for _, drive := range drives {
			if err := s.startOf(ctx, drive); err != nil {
				return err
			}
		}
		s.state.Listing = &listing{Drive: drives[0]}
		// Before anything is stored, so that whoever goes on knows that all of it was stored by this listing.
		if err := s.checkpoint(ctx); err != nil {
			return err
		}
	}
	for _, drive := range drives {
		if _, begun := s.state.Cursors[drive]; !begun || drive < s.state.Listing.Drive {
			continue
		}
		if drive != s.state.Listing.Drive {
			s.state.Listing = &listing{Drive: drive}
		}
		if !s.state.Listing.Files {
			if err := s.listFolders(ctx, drive); err != nil {
				return err
			}
			s.state.Listing.Files = true
			if err := s.checkpoint(ctx); err != nil {
				return err
			}
		}
		if err := s.listFiles(ctx, drive, s.state.Listing, s.checkpoint); err != nil {
			return err
		}
	}
	s.state.Listing = nil
	return nil
}

// listNew lists a shared drive that has come.
func (s *syncer) listNew(ctx context.Context, drive string) error {
	if err := s.startOf(ctx, drive); err != nil {
		return err
	}
	if err := s.listFolders(ctx, drive); err != nil {
		return err
	}
	return s.listFiles(ctx, drive, &listing{}, func(context.Context) error { return nil })
}

func (s *syncer) startOf(ctx context.Context, drive string) error {
	token, err := s.api.startToken(ctx, drive)
	if err != nil && drive != "" {
		err = aboutSource(err, "drive_id", drive)
	}
	if err != nil {
		return err
	}
	s.state.Cursors[drive] = token
	return checkToken(token)
}

// whole tells whether a drive is synced as a whole, and not one folder of it.
func (s *syncer) whole() bool { return s.cfg.source() != Folder }

// listFiles brings the files of a drive up to date, from where at is.
func (s *syncer) listFiles(ctx context.Context, drive string, at *listing, checkpoint func(context.Context) error) error {
	if s.whole() {
		return s.filesOf(ctx, drive, noFolders, at, checkpoint)
	}
	ids := []string{s.state.Roots[drive]}
	for id := range s.tree.folders {
		if s.tree.holds(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for {
		var batch []string
		for _, id := range ids {
			if id > at.After && (at.Upto == "" || id <= at.Upto) && len(batch) < parentsAtOnce {
				batch = append(batch, id)
			}
		}
		if len(batch) == 0 {
			return nil
		}
		at.Upto = batch[len(batch)-1]
		err := s.filesOf(ctx, drive, noFolders+" and "+inParents(batch), at, checkpoint)
		if isGone(err) {
			err = s.below(ctx, drive, noFolders, batch, func(page []item) error { return s.files(ctx, page) })
		}
		if err != nil {
			return err
		}
		at.After, at.Upto, at.Page = at.Upto, "", ""
	}
}

func (s *syncer) filesOf(ctx context.Context, drive, q string, at *listing, checkpoint func(context.Context) error) error {
	return s.pages(ctx, drive, q, at.Page, func(page []item, next string) error {
		if err := s.files(ctx, page); err != nil {
			return err
		}
		if at.Page = next; next == "" {
			return nil
		}
		return checkpoint(ctx)
	})
}

// below lists what is in folders. One that is gone makes Google refuse the whole query: it is then left out.
func (s *syncer) below(ctx context.Context, drive, filter string, folders []string, take func([]item) error) error {
	err := s.pages(ctx, drive, filter+" and "+inParents(folders), "", func(page []item, _ string) error { return take(page) })
	if !isGone(err) {
		return err
	}
	if len(folders) == 1 {
		s.notListed(folders[0])
		return nil
	}
	for _, id := range folders {
		if err := s.below(ctx, drive, filter, []string{id}, take); err != nil {
			return err
		}
	}
	return nil
}

// pages lists all pages of a query from one on.
func (s *syncer) pages(ctx context.Context, drive, q, token string, take func(page []item, next string) error) error {
	for {
		p, err := s.api.list(ctx, drive, q, token, s.opts.PageSize)
		if err != nil {
			return err
		}
		if err := checkToken(p.Next); err != nil {
			return err
		}
		s.result.Pages++
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

// files brings files up to date, several at a time.
func (s *syncer) files(ctx context.Context, items []item) error {
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(s.opts.Workers)
	err := func() error {
		for _, f := range lastOf(items, func(f item) string { return f.ID }) {
			if grouped.Err() != nil {
				return nil
			}
			parents, in := s.tree.place(f.Parents)
			if f.isFolder() || f.Trashed || s.tree.roots[f.ID] {
				continue
			}
			if !in {
				// Elsewhere: a listing deletes at its end what it has not shown.
				if !s.listing {
					if err := s.remove(grouped, f.ID); err != nil {
						return err
					}
				}
				continue
			}
			if err := s.count(); err != nil {
				return err
			}
			e := entry{id: f.ID, kind: aFile, parents: parents, item: &f, source: &f}
			if f.isShortcut() {
				if err := s.sight(grouped, e); err != nil {
					return err
				}
				continue
			}
			group.Go(func() error { return caught.Do(func() error { return s.file(grouped, e) }) })
		}
		return nil
	}()
	if waited := group.Wait(); waited != nil {
		return waited
	}
	return err
}

func (s *syncer) count() error {
	s.result.Listed++
	return s.bounded(2)
}

// bounded fails a sync of more than times as many files and folders as there may be. What a listing has not shown yet counts for
// nothing. What else is to be deleted is known when all is settled only, so until then twice as many are taken.
func (s *syncer) bounded(times int) error {
	s.mu.Lock()
	stored := len(s.known) - len(s.missing)
	s.mu.Unlock()
	if most := s.cfg.maxFiles(); stored > times*most {
		return permanentf("max_files: there are more than %d files and folders; raise max_files (up to %d), or sync one folder",
			most, MaxMaxFiles)
	}
	return nil
}

// checkpoint lets a sync that dies go on from here.
func (s *syncer) checkpoint(ctx context.Context) error {
	if err := s.markSeen(ctx); err != nil {
		return err
	}
	return s.sink.Checkpoint(ctx, s.state.clone())
}

func (s *syncer) markSeen(ctx context.Context) error {
	s.mu.Lock()
	stand := s.stand
	s.stand = nil
	s.mu.Unlock()
	if !s.listing || len(stand) == 0 {
		return nil
	}
	return s.sink.Seen(ctx, stand...)
}
