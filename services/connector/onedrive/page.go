package onedrive

import (
	"context"
	"fmt"
	"slices"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// page gives one page of changes to the engine.
func (l *lister) page(ctx context.Context, items []graph.Item) error {
	clear(l.pageFolders)
	if err := l.shrinkTree(); err != nil {
		return err
	}
	var files, again []graph.Item
	for _, item := range answer.LastOf(items, func(i graph.Item) string { return i.ID }) {
		switch {
		case item.ID == l.place.Root:
			if item.Deleted != nil {
				return l.rootError(graph.ErrVanished, "the connector's folder")
			}
		case item.Root != nil:
		case item.Deleted != nil:
			if err := l.s.Remove(ctx, item.ID); err != nil {
				return err
			}
			// A deleted item lists little ("driveItem: delta", Remarks); that it was a folder is known from what lies in it.
			if _, had := l.folderTree().folders[item.ID]; had || l.tree.cut {
				l.markLost(item.ID)
			}
		case item.IsFolder():
			l.pageFolders[item.ID] = struct{}{}
			if l.folderChanged(item) {
				again = append(again, item)
			}
		default:
			files = append(files, item)
		}
	}
	// Folders come first, so that a changed file in a changed folder is read only once, with its new URL.
	for _, item := range again {
		if err := l.listMoved(ctx, item); err != nil {
			return err
		}
	}
	return l.files(ctx, files)
}

// files gives the files among some items to the engine.
func (l *lister) files(ctx context.Context, items []graph.Item) error {
	for _, item := range items {
		if item.IsFolder() {
			continue
		}
		if err := l.giveFile(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

// folderChanged updates a reported folder, and tells whether its contents must be listed. A listing of everything shows them by
// itself, unless it comes after files whose folders were only remembered.
func (l *lister) folderChanged(item graph.Item) bool {
	changed, had := l.updateFolder(item)
	switch {
	case changed:
		return true
	case l.listing && !l.following:
		return false
	}
	// It may have come from outside the connector's folder, or from the recycle bin, with all its contents. Some known files below
	// it do not prove that all are known: a sync may have died.
	empty := item.Folder.ChildCount != nil && *item.Folder.ChildCount == 0
	return !empty && (!had || !l.place.Whole)
}

// updateFolder updates a folder that exists. A folder that an earlier page of the round reported as gone has come back, and its
// contents may have been removed.
func (l *lister) updateFolder(item graph.Item) (changed, had bool) {
	if at := slices.Index(l.cursor.Lost, item.ID); at >= 0 {
		l.cursor.Lost, changed = slices.Delete(l.cursor.Lost, at, at+1), true
	}
	moved, had := l.folderTree().update(item)
	return changed || moved, had
}

// notFound is the reason of a file whose folder could not be asked for.
const notFound = "its folder cannot be asked for now; it is looked for again by the next sync"

// giveFile gives a file to the engine.
func (l *lister) giveFile(ctx context.Context, item graph.Item) error {
	folders, at, err := l.foldersAbove(ctx, item.Parent.ID)
	if err != nil {
		return fmt.Errorf("find the folder of %s: %w", item.ID, err)
	}
	if at == outside {
		return l.s.Remove(ctx, item.ID)
	}
	before, _ := l.s.Stored(item.ID)
	m := newMemo(folders, at != inside).withContent(item, memoOf(before))
	if m.Cut {
		l.folderTree().cut = true
	}
	it := l.newItem(item, m)
	switch {
	case at == unknown:
		return l.s.Fail(ctx, it, source.Unreadable{Reason: notFound})
	case at == away && !l.place.Whole: // the file was listed, and its folder may be anywhere
		it.Version, it.Unread = "", ""
		it.Read = func(context.Context) (source.Content, error) { return source.Content{}, source.ErrAway }
	}
	return l.s.Item(ctx, it)
}

// newItem describes a file to the engine. Its title is the file's name: a renamed file is touched without being read, so the title
// cannot come from its content.
func (l *lister) newItem(item graph.Item, m memo) source.Item {
	return source.Item{
		ID: item.ID, Title: item.Name, URL: item.WebURL, MediaType: item.MediaType(), Version: m.Version, Memo: m, Bytes: item.Size,
		Unread: l.reader.Refusal(item),
		Read: func(ctx context.Context) (source.Content, error) {
			content, fresh, err := l.reader.Content(ctx, l.place.Drive, item)
			// The file may have been asked for again. If it was moved meanwhile, the next delta reports it.
			now := l.newItem(fresh, m.withContent(fresh, m))
			content.Now = &now
			return content, err
		},
	}
}
