package onedrive

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/services/connector/graph"
)

// page applies one page of changes, and returns when all of it is sent.
func (s *syncer) page(ctx context.Context, items []graph.Item) error {
	items = lastOf(items)
	clear(s.named)
	s.forget()
	var files, again []graph.Item
	for _, item := range items {
		switch {
		case item.ID == s.state.Root:
			if item.Deleted != nil {
				return errDeleted
			}
		case item.Root != nil:
		case item.Deleted != nil:
			_, stored := s.stored(item.ID)
			if err := s.remove(ctx, item.ID); err != nil {
				return err
			}
			// A deleted item lists little ("driveItem: delta", Remarks); that it was a folder is known from what
			// lies in it. What is not known may have been the folder of documents whose place is not.
			if _, had := s.tree.folders[item.ID]; had || item.Folder != nil {
				s.loses(item.ID)
			} else if !stored && item.File == nil {
				s.went = true
			}
		case item.IsFolder():
			s.named[item.ID] = struct{}{}
			if s.folderChanged(item) {
				again = append(again, item)
			}
		default:
			files = append(files, item)
		}
	}
	// First, so that a file that has changed in a folder that has, too, is read only once: with its new URL.
	for _, item := range again {
		if err := s.below(ctx, item); err != nil {
			return err
		}
	}
	return s.files(ctx, files)
}

// lastOf keeps the last of several occurrences of an item ("driveItem: delta", Remarks).
func lastOf(items []graph.Item) []graph.Item {
	last := make(map[string]int, len(items))
	for i, item := range items {
		last[item.ID] = i
	}
	kept := make([]graph.Item, 0, len(last))
	for i, item := range items {
		if item.ID != "" && last[item.ID] == i {
			kept = append(kept, item)
		}
	}
	return kept
}

// folderChanged takes a reported folder, and tells whether what lies below it must be looked at. A listing of
// everything shows that by itself, unless it comes after files whose folders were only remembered.
func (s *syncer) folderChanged(item graph.Item) bool {
	changed, had := s.tree.reported(item)
	switch {
	case changed:
		return true
	case s.listing && !s.following:
		return false
	}
	// It may have come from outside the connector's folder, or out of the recycle bin, with all that is in it.
	// Whether the documents below it are all there is not known from some of them: a sync may have died.
	empty := item.Folder.ChildCount != nil && *item.Folder.ChildCount == 0
	return !empty && (!had || !s.state.Whole)
}

// files brings files up to date, several at a time.
func (s *syncer) files(ctx context.Context, files []graph.Item) error {
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(s.opts.Workers)
	err := func() error {
		for _, item := range files {
			folders, at, err := s.above(grouped, item.Parent.ID)
			if err != nil {
				return fmt.Errorf("find the folder of %s: %w", item.ID, err)
			}
			if at == outside {
				if err := s.remove(grouped, item.ID); err != nil {
					return err
				}
				continue
			}
			if err := s.shown(item.ID); err != nil {
				return err
			}
			if at != inside {
				if err := s.away(grouped, item, placeless(), at); err != nil {
					return err
				}
				continue
			}
			group.Go(func() error { return caught.Do(func() error { return s.file(grouped, item, folders) }) })
		}
		return nil
	}()
	if waited := group.Wait(); waited != nil {
		return waited
	}
	if err != nil {
		return err
	}
	return s.markSeen(ctx)
}

// shown takes a document off what is missing, and counts.
func (s *syncer) shown(id string) error {
	s.result.Listed++
	delete(s.missing, id)
	return s.bounded(2)
}

// bounded fails a sync of a drive that holds more than times as many files as it may. What a listing has not shown yet counts for
// nothing. What else is to be deleted is known at the end of a round only, so until then twice as many are taken.
func (s *syncer) bounded(times int) error {
	s.mu.Lock()
	files := len(s.known) - len(s.missing)
	s.mu.Unlock()
	if most := s.cfg.maxFiles(); files > times*most {
		return fmt.Errorf("%w: max_files: the drive holds more than %d files; raise max_files (up to %d), or name a folder of it",
			ErrPermanent, most, MaxMaxFiles)
	}
	return nil
}
